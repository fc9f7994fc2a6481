"""The command, as a vendor calls it, on XLA's CPU plugin."""

from __future__ import annotations

import json
import os
from pathlib import Path
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from xml.etree import ElementTree

import processes
from processes import clean_environment
import pytest
import xla_plugins.xla_cpu_pjrt

ENVIRONMENT = {}  # Beside the tests that need no child.
_COMMAND = [sys.executable, '-m', 'torch_xla.shardy', 'conformance']
_LIBRARY = str(
    Path(xla_plugins.xla_cpu_pjrt.__file__).parent / 'xla_cpu_pjrt.so')
_ON_CPU = ('--plugin', _LIBRARY, '--options', 'cpu_device_count=8')
_KNOWN = (
    Path(__file__).resolve().parents[2] /
    'examples/xla_cpu_expected_failures.txt')
# All of it; on two cores, with nothing else to do, it takes some minutes.
_SECONDS = 2400


def run(*arguments: object,
        **variables: str) -> subprocess.CompletedProcess[str]:
  return processes.command('torch_xla.shardy', 'conformance', *arguments,
                           **variables)


@pytest.mark.nightly
def test_xlas_cpu_plugin_conforms(tmp_path: Path) -> None:
  """Every case; known gaps are in a file, of which no line is stale."""
  told = tmp_path / 'told.json'
  done = subprocess.run([
      *_COMMAND, *_ON_CPU, '--all', '--expected-failures', _KNOWN, '--jobs',
      '2', '--json', told, '--timeout', '300'
  ],
                        env=clean_environment(),
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                        text=True,
                        timeout=_SECONDS,
                        check=False)
  assert done.returncode == 0, done.stdout[-8000:]
  assert 'conforms (' in done.stdout.splitlines()[-1]
  results = json.loads(told.read_text())['results']
  assert sum(r['status'] == 'passed' for r in results) > 3000
  # Without a topology, without statistics of memory, and maybe without the room.
  skipped = [r for r in results if r['status'] == 'skipped']
  assert {r['case'] for r in skipped if r['part'] != '2049 MiB'} == {
      'ahead.compile', 'ahead.damaged', 'ahead.devices', 'queries.memory'
  }


@pytest.mark.nightly
def test_a_registered_device_and_all_forms(tmp_path: Path) -> None:
  forms = {name: tmp_path / f'out.{name}' for name in ('json', 'junit', 'html')}
  known = tmp_path / 'known.txt'
  known.write_text('donation.real/taken  it is right, and the line is stale\n')
  done = run(
      '--device',
      'xlacpu',
      '--only',
      'donation.real',
      'start.twice',
      '--skip',
      'start.twice/library',
      '--expected-failures',
      known,
      *(word for name, path in forms.items() for word in (f'--{name}', path)),
      CPU_NUM_DEVICES='4')
  assert done.returncode == 1, done.stderr
  assert done.stdout.endswith('1 finding(s) (16 passed, 1 stale)\n')
  assert '0 of 3 done; start.twice' in done.stderr
  told = json.loads(forms['json'].read_text())
  assert told['verdict'] == 'findings'
  assert told['capabilities']['devices'] == [0, 1, 2, 3]
  suite = ElementTree.parse(forms['junit']).getroot()
  assert (suite.get('tests'), suite.get('failures')) == ('17', '1')
  assert 'known.txt:1' in forms['html'].read_text()


_WRONG = [
    ((), 'give --plugin FILE or --device NAME'),
    (('--plugin', 'no-such.so'), 'no-such.so: there is no such file'),
    (('--device', 'ACME'), '--device ACME: no plugin has that name'),
    (('--device', 'XLACPU', '--options', 'a=1'), 'go with --plugin'),
    ((*_ON_CPU, '--jobs', 0), '--jobs 0'),
    ((*_ON_CPU, '--timeout', 'inf'), '--timeout inf'),
    ((*_ON_CPU, '--only', 'nothing'), "'nothing' matches no case"),
    ((*_ON_CPU, '--only', 'donation.*', '--skip', 'donation.*'),
     '--only and --skip leave nothing'),
    ((*_ON_CPU, '--shard', '5/4'), "'5/4' is no shard"),
    ((*_ON_CPU, '--json', 'f', '--html', './f'), 'go to different files'),
    ((*_ON_CPU, '--expected-failures', '/no/such'), '--expected-failures'),
]


@pytest.mark.slow
@pytest.mark.parametrize('arguments, message', [
    *_WRONG[:2],
    *(pytest.param(*one, marks=pytest.mark.nightly) for one in _WRONG[2:])
])
def test_wrong_usage(arguments: tuple[object, ...], message: str) -> None:
  done = run(*arguments)
  assert done.returncode == 2
  assert message in done.stderr and 'Traceback' not in done.stderr


@pytest.mark.nightly
def test_what_is_no_plugin(tmp_path: Path) -> None:
  text = tmp_path / 'text.so'
  text.write_text('no library')
  done = run('--plugin', text)
  assert done.returncode == 1
  told = ' '.join(done.stdout.split())
  assert 'FAILED capabilities/table' in told and 'file too short' in told


@pytest.mark.slow
def test_listing() -> None:
  done = run('--list', '--only', 'donation.*')
  assert done.returncode == 0
  assert done.stdout.startswith(
      'donation.real (2 parts)\n    else a step needs')
  assert '\n    parts: taken, refused\n' in done.stdout


@pytest.mark.nightly
def test_when_all_is_skipped_nothing_was_judged() -> None:
  done = run(*_ON_CPU, '--only', 'ahead.*')
  assert done.returncode == 2
  assert done.stdout.splitlines()[-1] == (
      'nothing was judged: all that was asked for was skipped '
      '(13 passed, 5 skipped)')


@pytest.mark.nightly
def test_reports_that_cannot_be_written(tmp_path: Path) -> None:
  """The others are, and the table is there."""
  junit = tmp_path / 'out.xml'
  done = run(*_ON_CPU, '--only', 'start.version', '--json', '/dev/full',
             '--junit', junit, '--topology', 'v5e:2x2')
  assert done.returncode == 2
  assert 'no case used --topology v5e:2x2' in done.stderr
  assert 'conforms, as far as tried (14 passed)' in done.stdout
  assert '/dev/full was not written: ' in done.stderr
  assert ElementTree.parse(junit).getroot().get('tests') == '14'


@pytest.mark.nightly
@pytest.mark.parametrize('output', ['>&-', '| true', '2>&- >&-'])
def test_nobody_reads(output: str, tmp_path: Path) -> None:
  told = tmp_path / 'told.json'
  command = shlex.join(
      [*_COMMAND, *_ON_CPU, '--only', 'start.version', '--json',
       str(told)])
  done = subprocess.run(['bash', '-c', f'set -o pipefail; {command} {output}'],
                        env=clean_environment(),
                        stderr=subprocess.PIPE,
                        text=True,
                        timeout=240,
                        check=False)
  assert done.returncode == 0 and 'Traceback' not in done.stderr
  assert json.loads(told.read_text())['verdict'] == 'conforms'


@pytest.mark.nightly
def test_an_interrupted_run_leaves_nothing() -> None:
  with tempfile.TemporaryFile('w+') as errors, subprocess.Popen(
      [
          *_COMMAND, *map(str, _ON_CPU), '--only', 'endurance.*',
          'operations.*.alone'
      ],
      env=clean_environment(),
      stdout=subprocess.PIPE,
      stderr=errors,
      text=True,
      # Where this process was started in the background, it is ignored.
      preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
      start_new_session=True) as process:
    deadline = time.monotonic() + 120
    said = ''
    while 'endurance.steps' not in said and time.monotonic() < deadline:
      time.sleep(.2)
      errors.seek(0)
      said = errors.read()
    children = _descendants(process.pid)
    assert children
    process.send_signal(signal.SIGINT)
    told, _ = process.communicate(timeout=60)
  assert process.returncode == 130
  assert told.rstrip().splitlines()[-1].startswith('interrupted')
  deadline = time.monotonic() + 20
  while any(map(_exists, children)) and time.monotonic() < deadline:
    time.sleep(.1)
  assert not [pid for pid in children if _exists(pid)]


def _exists(pid: int) -> bool:
  return os.path.exists(f'/proc/{pid}')


def _descendants(pid: int) -> set[int]:
  found = set()
  children = Path(f'/proc/{pid}/task/{pid}/children').read_text().split()
  for child in map(int, children):
    found |= {child} | _descendants(child)
  return found
