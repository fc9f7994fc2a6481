"""The doctor's probe on devices that work, and on what is none."""

import json
import subprocess
import sys
import time

import pytest
from processes import clean_environment, output_of
from torch_xla.shardy.doctor import Status
from torch_xla.shardy.doctor.child import probe_in_child
from torch_xla.shardy.doctor.device_probe import STEPS

_SECONDS = 120
_CHECKS = ['probe.process'] + [f'probe.{step}' for step in STEPS]
_CONTRACT = [
    'torch', 'torch_xla', 'libtpu', 'jaxlib', 'device', 'plugin', 'environment',
    'mode', 'spmd', 'jax'
]


def doctor(*arguments: str, **variables: str) -> subprocess.CompletedProcess:
  return subprocess.run(
      [sys.executable, '-m', 'torch_xla.shardy.doctor', *arguments],
      env=clean_environment(**variables),
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      text=True,
      timeout=2 * _SECONDS,
      check=False)


def probe(seconds: float = _SECONDS, **variables: str):
  """The probe's findings by check, and the steps that it told of."""
  steps = []
  report = probe_in_child(clean_environment(**variables), seconds, steps.append)
  return {f.check: f for f in report.findings}, steps


def test_json_of_a_sound_process():
  done = doctor(
      '--json',
      PJRT_DEVICE='CPU',
      CPU_NUM_DEVICES='4',
      TF_CPP_MIN_LOG_LEVEL='2')
  assert done.returncode == 0, (done.stdout, done.stderr)
  data = json.loads(done.stdout)
  assert sorted(data) == ['findings', 'ok', 'schema']
  assert data['ok'] is True and data['schema'] == 1
  assert [f['check'] for f in data['findings']] == _CONTRACT + _CHECKS
  assert all(
      sorted(f) == ['check', 'found', 'remedy', 'status']
      for f in data['findings'])
  found = {f['check']: f['found'] for f in data['findings']}
  assert found['probe.start'] == '4 device(s): CPU:0 CPU:1 CPU:2 CPU:3'
  # The client that is built in shows no compiled program.
  assert found['probe.collective'] == 'the sum over 4 devices is exact'
  assert found['probe.door'] == 'mode off: programs pass no door'
  progress = [f'doctor: probe: {step}' for step in ('import', *STEPS)]
  assert done.stderr.splitlines() == progress


@pytest.mark.parametrize('variable', ['XLA_SHARDING_V2', 'XLA_USE_SHARDY'])
def test_probe_behind_the_door(variable):
  pytest.importorskip('xla_plugins.xla_cpu_pjrt')
  found, _ = probe(PJRT_DEVICE='CPU', CPU_NUM_DEVICES='4', **{variable: '1'})
  assert list(found) == _CHECKS
  assert all(f.status is Status.OK for f in found.values()), found
  assert found['probe.collective'].found.endswith('exact, by an all-reduce')
  assert 'program(s) passed, partitioned by ' in found['probe.door'].found
  partitioners = found['probe.door'].found.split('partitioned by ')[1]
  assert ('shardy' in partitioners) is (variable == 'XLA_USE_SHARDY')


def test_table_of_a_device_that_is_not_known():
  done = doctor('--timeout', '60', PJRT_DEVICE='FOO')
  assert done.returncode == 1
  assert 'Traceback' not in done.stdout + done.stderr
  assert max(map(len, done.stdout.splitlines())) <= 80
  text = ' '.join(done.stdout.split())
  assert 'PJRT_DEVICE=FOO: no plugin of that name is registered' in text
  assert 'RuntimeError: No PjRtPlugin registered for: FOO' in text
  assert text.count('probe.start failed') == len(STEPS) - 1
  assert text.endswith('2 error(s), 0 warning(s)')


def test_runtime_that_crashes_is_named_by_its_signal():
  found, steps = probe(PJRT_DEVICE='CPU', XLA_FLAGS='--xla_nonsense=1')
  assert list(found) == ['probe.process']
  assert found['probe.process'].status is Status.ERROR
  text = found['probe.process'].found
  assert 'killed by SIGABRT in the step start' in text
  assert 'Unknown flag in XLA_FLAGS: --xla_nonsense=1' in text
  assert steps == ['import', 'start']


def test_no_device_at_all():
  # Read as 0 by the client that is built in, which is content with it.
  found, _ = probe(PJRT_DEVICE='CPU', CPU_NUM_DEVICES='eight')
  assert found['probe.start'].status is Status.ERROR
  assert 'the runtime has no device' in found['probe.start'].found
  assert found['probe.door'].status is Status.SKIPPED


def test_library_that_is_missing():
  found, _ = probe(
      PJRT_DEVICE='TPU',
      TPU_LIBRARY_PATH='/nonexistent/libtpu.so',
      XLA_SHARDING_V2='1')
  assert found['probe.start'].status is Status.ERROR
  assert '/nonexistent/libtpu.so' in found['probe.start'].found
  assert found['probe.process'].status is Status.OK


def test_tpu_that_is_not_there():
  pytest.importorskip('libtpu', reason='needs libtpu to look for a TPU')
  found, _ = probe(PJRT_DEVICE='TPU', TPU_SKIP_MDS_QUERY='1')
  assert found['probe.start'].status is Status.ERROR
  assert 'TPU initialization failed' in found['probe.start'].found


def test_probe_that_does_not_end():
  pytest.importorskip('libtpu', reason='needs libtpu to look for a TPU')
  # It asks the metadata server, again and again, for minutes.
  start = time.monotonic()
  found, steps = probe(12, PJRT_DEVICE='TPU')
  assert time.monotonic() - start < 20
  assert list(found) == ['probe.process']
  assert found['probe.process'].status is Status.ERROR
  assert f'no end after 12 s, in the step {steps[-1]}' in (
      found['probe.process'].found)


@pytest.mark.parametrize('arguments', [
    ('--timeout', '0'),
    ('--timeout', 'nan'),
    ('--timeout', 'soon'),
    ('--unknown',),
])
def test_usage(arguments, capsys):
  from torch_xla.shardy.doctor.__main__ import main
  with pytest.raises(SystemExit) as e:
    main(list(arguments))
  assert e.value.code == 2
  assert 'usage: python -m torch_xla.shardy.doctor' in capsys.readouterr().err


_IN_PROCESS = '''
import torch, torch_xla
from torch_xla.shardy import doctor
from torch_xla.shardy.doctor import device_probe
pending = torch.ones(2, device='xla:1') + 1
text = torch_xla._XLAC._get_xla_tensors_text([pending])
report = doctor.diagnose()
print([(f.check, f.status.value) for f in report.findings[10:]])
assert report.ok
assert doctor.diagnose(probe=False).findings == report.findings[:10]
# What the process had pending is still so.
assert torch_xla._XLAC._get_xla_tensors_text([pending]) == text

rows = [('a', 0, torch.ones(1, 2)), ('b', 1, torch.ones(1, 2))]
for wrong in ([('a', 0, -rows[0][2]), rows[1]], rows[:1],
              [('a', 0, rows[0][2].int()), rows[1]]):
  try:
    device_probe._check_rows(wrong, torch.ones(2, 2), 'sum')
  except device_probe.ProbeError as e:
    print(e)
device_probe._check_rows(rows, torch.ones(2, 2), 'sum')
'''


def test_probe_in_a_process_without_spmd():
  lines = output_of(
      _IN_PROCESS, PJRT_DEVICE='CPU', CPU_NUM_DEVICES='2').splitlines()
  assert lines == [
      str([('probe.start', 'ok'), ('probe.transfer', 'ok'),
           ('probe.computation', 'ok'), ('probe.collective', 'skipped'),
           ('probe.door', 'ok')]),
      'sum on a: 2 of 8 bytes are wrong',
      'sum: 1 device(s) answered of 2',
      'sum on a: torch.int32 (1, 2) came back, torch.float32 (1, 2) was '
      'expected',
  ]
