"""The doctor's probe on devices that work, and on what is none."""

from __future__ import annotations

import json
import os
from pathlib import Path
import subprocess
import sys

import environments
from processes import clean_environment
import pytest
import torch
import torch_xla
from torch_xla.shardy import doctor
from torch_xla.shardy.doctor import child, device_probe, Finding, Status
from torch_xla.shardy.doctor.device_probe import STEPS
from torch_xla_shardy.main import main

ENVIRONMENT = {}  # Beside the tests that need no child.
_SECONDS = 120
_CHECKS = [f'probe.{step}' for step in STEPS]
_CONTRACT = [
    'torch', 'torch_xla', 'libtpu', 'jaxlib', 'device', 'plugin', 'environment',
    'mode', 'stablehlo', 'spmd', 'jax'
]
_CPU = environments.DEVICES


def run_doctor(*arguments: str,
               **variables: str) -> subprocess.CompletedProcess:
  """The command, as a user's shell starts it: it looks at how it was started."""
  return subprocess.run(
      [sys.executable, '-m', 'torch_xla.shardy', 'doctor', *arguments],
      env=clean_environment(**variables),
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      text=True,
      timeout=2 * _SECONDS,
      check=False)


def probe(seconds: float = _SECONDS, **variables: str) -> dict[str, Finding]:
  """The findings by check of a probe in a new process."""
  report = child.probe_in_child(clean_environment(**variables), seconds)
  return {f.check: f for f in report.findings}


def served(folder: Path) -> dict[str, Finding]:
  """What the child's side tells when this process is the child."""
  told = folder / 'told'
  child.serve(os.open(told, os.O_WRONLY | os.O_CREAT))
  messages = [json.loads(line) for line in told.read_text().splitlines()]
  found = [Finding.from_dict(m['finding']) for m in messages if 'finding' in m]
  return {f.check: f for f in found}


@pytest.mark.nightly
def test_json_of_a_sound_process():
  done = run_doctor(
      '--json',
      '-',
      PJRT_DEVICE='CPU',
      CPU_NUM_DEVICES='4',
      TF_CPP_MIN_LOG_LEVEL='2')
  assert done.returncode == 0, (done.stdout, done.stderr)
  data = json.loads(done.stdout)
  assert sorted(data) == ['findings', 'ok', 'schema']
  assert data['ok'] is True and data['schema'] == 1
  assert [f['check'] for f in data['findings']
         ] == _CONTRACT + ['probe.process'] + _CHECKS
  assert all(
      sorted(f) == ['check', 'message', 'remedy', 'status']
      for f in data['findings'])
  found = {f['check']: f['message'] for f in data['findings']}
  # Known from /proc: nothing was set while the process ran.
  assert found['environment'] == (
      'no variable was set too late, none is misread')
  assert found['probe.start'] == '4 device(s): CPU:0 CPU:1 CPU:2 CPU:3'
  # The client that is built in shows no compiled program.
  assert found['probe.collective'] == 'the sum over 4 devices is exact'
  assert found['probe.door'] == 'mode off: programs pass no door'


@pytest.mark.parametrize('variable', [
    pytest.param(
        variable,
        id=variable,
        marks=pytest.mark.environment(**_CPU, **{variable: '1'}))
    for variable in ('XLA_SHARDING_V2', 'XLA_USE_SHARDY')
])
def test_probe_behind_the_door(variable, tmp_path):
  found = served(tmp_path)
  assert list(found) == _CHECKS
  assert all(f.status is Status.OK for f in found.values()), found
  assert found['probe.collective'].message.endswith('exact, by an all-reduce')
  assert 'program(s) passed, partitioned by ' in found['probe.door'].message
  partitioners = found['probe.door'].message.split('partitioned by ')[1]
  assert ('shardy' in partitioners) is (variable == 'XLA_USE_SHARDY')


@pytest.mark.environment(**_CPU, XLA_USE_SHARDY='1')
def test_probe_of_a_library(monkeypatch, tmp_path):
  plugin = pytest.importorskip('xla_plugins.xla_cpu_pjrt')
  library = os.path.join(list(plugin.__path__)[0], 'xla_cpu_pjrt.so')
  monkeypatch.setenv('PJRT_DEVICE', 'LIBRARY')
  monkeypatch.setenv('PJRT_LIBRARY_PATH', library)
  found = served(tmp_path)
  assert all(f.status is not Status.ERROR for f in found.values()), found
  assert 'program(s) passed' in found['probe.door'].message
  found = {f.check: f for f in doctor.check().findings}
  assert found['device'].status is Status.OK
  assert found['mode'].message == 'shardy, the door is open'
  assert found['plugin'].status is Status.OK
  assert library in found['plugin'].message


@pytest.mark.environment(**_CPU)
def test_no_device_at_all(monkeypatch, tmp_path):
  # Read as 0 by the client that is built in, which is content with it.
  monkeypatch.setenv('CPU_NUM_DEVICES', 'eight')
  found = served(tmp_path)
  assert found['probe.start'].status is Status.ERROR
  assert 'the runtime has no device' in found['probe.start'].message
  assert found['probe.door'].status is Status.SKIPPED


@pytest.mark.environment(**_CPU)
def test_tpu_that_is_not_there(monkeypatch, tmp_path):
  pytest.importorskip('libtpu', reason='needs libtpu to look for a TPU')
  monkeypatch.setenv('PJRT_DEVICE', 'TPU')
  monkeypatch.setenv('TPU_SKIP_MDS_QUERY', '1')
  found = served(tmp_path)
  assert found['probe.start'].status is Status.ERROR
  assert 'TPU initialization failed' in found['probe.start'].message


_TELLS = '''
import os, sys, time
os.write(int(sys.argv[1]), b'{"step": "start"}\\n')
print('E0000 00:00:1795267757.405682    6281 file.cc:77] it goes wrong',
      flush=True)
'''


@pytest.mark.parametrize('end, status, text', [
    ('', Status.OK, 'the probe ran to its end'),
    ('sys.exit(3)', Status.ERROR, 'exit status 3 in the step start; it said '
     'last: it goes wrong'),
    ('os.abort()', Status.ERROR, 'killed by SIGABRT in the step start; it said '
     'last: it goes wrong'),
    ('time.sleep(600)', Status.ERROR, 'no end after 1 s, in the step start; it '
     'said last: it goes wrong'),
], ids=['well', 'status', 'signal', 'hangs'])  # yapf: disable
def test_end_of_the_child_is_a_finding(end, status, text, monkeypatch):
  monkeypatch.setattr(child, '_SERVE', _TELLS + end)
  found = probe(1 if 'sleep' in end else _SECONDS)
  assert list(found) == ['probe.process']
  assert (found['probe.process'].status,
          found['probe.process'].message) == (status, text)


@pytest.mark.parametrize('arguments', [
    ('--timeout', '0'),
    ('--unknown',),
])
def test_usage(arguments, capsys):
  with pytest.raises(SystemExit) as e:
    main(['doctor', *arguments])
  assert e.value.code == 2
  assert 'error: ' in capsys.readouterr().err


def test_programs_that_are_not_told_apart(monkeypatch):
  a, b = torch.tensor([6., 8.]), torch.tensor([2., 4.])
  monkeypatch.setattr(device_probe, '_on_both', lambda f: (-f(a, b), f(a, b)))
  status, message, _ = STEPS['identity'](None)
  assert status is Status.WARNING
  assert message.endswith('[-1.3333333730697632, -2.0] for '
                          '[1.3333333730697632, 2.0]')


@pytest.mark.environment(**_CPU)
def test_probe_in_a_process_without_spmd(monkeypatch):
  monkeypatch.setenv('CPU_NUM_DEVICES', '2')
  pending = torch.ones(2, device='xla:1') + 1
  text = torch_xla._XLAC._get_xla_tensors_text([pending])
  report = doctor.diagnose()
  assert [(f.check, f.status.value) for f in report.findings[11:]
         ] == [('probe.start', 'ok'), ('probe.transfer', 'ok'),
               ('probe.computation', 'ok'), ('probe.collective', 'skipped'),
               ('probe.door', 'ok'), ('probe.identity', 'ok')]
  assert report.ok
  assert doctor.diagnose(probe=False).findings == report.findings[:11]
  # What the process had pending is still so.
  assert torch_xla._XLAC._get_xla_tensors_text([pending]) == text

  rows = [('a', 0, torch.ones(1, 2)), ('b', 1, torch.ones(1, 2))]
  for wrong, message in (
      ([('a', 0, -rows[0][2]), rows[1]], 'sum on a: 2 of 8 bytes are wrong'),
      (rows[:1], 'sum: 1 device(s) answered of 2'),
      ([('a', 0, rows[0][2].int()),
        rows[1]], 'sum on a: torch.int32 (1, 2) came back, torch.float32 '
       '(1, 2) was expected'),
  ):
    with pytest.raises(device_probe.ProbeError) as e:
      device_probe._check_rows(wrong, torch.ones(2, 2), 'sum')
    assert str(e.value) == message
  device_probe._check_rows(rows, torch.ones(2, 2), 'sum')
