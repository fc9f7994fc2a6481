"""The command, as a user calls it."""

from __future__ import annotations

import os
from pathlib import Path
import signal
import subprocess
import sys
import tempfile
import time

from ahead_of_time import SCRIPTS
import processes
from processes import clean_environment
import pytest
from torch_xla.shardy.aot import launcher, settings
from torch_xla.shardy.aot.settings import Settings
from torch_xla.shardy.aot.reporting import json_form
from torch_xla_shardy.main import main

ENVIRONMENT = {}  # Beside the tests that need no child.
_COMMAND = [sys.executable, '-m', 'torch_xla.shardy', 'aot']


def run(*arguments: object,
        folder: Path,
        cwd: Path | None = None,
        **variables: str) -> subprocess.CompletedProcess[str]:
  """The command, with a folder of its own for what is temporary."""
  return subprocess.run([*_COMMAND, *map(str, arguments)],
                        cwd=cwd,
                        env=clean_environment(TMPDIR=str(folder), **variables),
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                        text=True,
                        timeout=120,
                        check=False)


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
  folder = tmp_path / 'temporary'
  folder.mkdir()
  return folder


@pytest.mark.slow
@pytest.mark.parametrize('topologies', [
    {'v5e:2x2': 4},
    pytest.param({'v5e:2x2': 4, 'v5e-8': 8}, marks=pytest.mark.nightly),
], ids=len)  # yapf: disable
def test_reports_files_and_requirements(topologies: dict[str,
                                                         int], tmp_path: Path,
                                        temporary: Path) -> None:
  """What holds and what does not; the command itself is forked."""
  made, page = tmp_path / 'made.json', tmp_path / 'made.html'
  count = len(topologies)
  done = processes.command(
      'torch_xla.shardy',
      'aot',
      *(f'--topology={topology}' for topology in topologies),
      '--json',
      made,
      '--html',
      page,
      '--require',
      'fits',
      '--require',
      'all-reduce count over data<=1',
      '--require',
      'programs<=1',
      SCRIPTS / 'train.py',
      '--steps',
      '4',
      '--read',
      TMPDIR=str(temporary))
  assert done.returncode == 1, done.stderr
  assert done.stdout.count('step 3 loss 0.0') == count
  reports = json_form.read(made)
  assert reports[0].script[1:] == ('--steps', '4', '--read')
  assert [r.topology.devices for r in reports] == list(topologies.values())
  # One line for each topology for which it does not hold.
  assert done.stderr.count('programs<=1: programs is 2, and <= 1') == count
  assert 'fits:' not in done.stderr and 'over data' not in done.stderr
  assert done.stderr.count('they are zeros') == count
  assert 'program 2, SyncTensorsGraph' in done.stderr
  assert '<html' in page.read_text()
  assert all(topology in page.read_text() for topology in topologies)
  assert list(temporary.iterdir()) == []


@pytest.mark.nightly
def test_a_process_that_ends_itself(temporary: Path) -> None:
  done = run(
      '--topology', 'v5e:2x2', SCRIPTS / 'ends.py', 'crash', folder=temporary)
  assert done.returncode == 3
  assert 'the process was ended by SIGSEGV' in done.stdout
  assert 'ends.py:13' in done.stdout
  assert ('\nnot known whether it fits: the script failed after 1 program; the '
          'largest peak is ') in done.stdout
  # What the script's own libraries leave so is theirs.
  assert list(temporary.glob('aot-*')) == []


@pytest.mark.nightly
def test_needs_libtpu_and_nothing_else(tmp_path: Path, temporary: Path) -> None:
  """Mode shardy works where neither XLA's CPU plugin nor JAX is installed."""
  (tmp_path / 'sitecustomize.py').write_text(
      'import importlib.abc\n'
      'import sys\n'
      'class NotInstalled(importlib.abc.MetaPathFinder):\n'
      '  def find_spec(self, name, path=None, target=None):\n'
      "    if name.split('.')[0] in ('jax', 'jaxlib', 'xla_plugins'):\n"
      '      raise ModuleNotFoundError(name)\n'
      'sys.meta_path.insert(0, NotInstalled())\n')
  done = run(
      '--topology',
      'v5e:2x2',
      SCRIPTS / 'train.py',
      folder=temporary,
      PYTHONPATH=str(tmp_path),
      XLA_USE_SHARDY='1')
  assert done.returncode == 0, done.stderr
  assert 'mode shardy' in done.stdout


@pytest.mark.nightly
@pytest.mark.parametrize(
    'to_group', [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_an_interrupted_run(to_group: bool, temporary: Path) -> None:
  """By ctrl-C in a terminal, which both processes get, or by kill."""
  process = subprocess.Popen(
      [*_COMMAND, '--topology', 'v5e:2x2',
       str(SCRIPTS / 'ends.py'), 'wait'],
      env=clean_environment(TMPDIR=str(temporary)),
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      text=True,
      start_new_session=True)
  assert process.stdout.readline() == 'computed\n'
  time.sleep(0.5)
  if to_group:
    os.killpg(process.pid, signal.SIGINT)
  else:
    process.terminate()
  out, _ = process.communicate(timeout=60)
  assert process.returncode == 130
  assert 'cleaned up' in out and 'ended: interrupted' in out
  assert list(temporary.iterdir()) == []
  with pytest.raises(ProcessLookupError):
    os.killpg(process.pid, 0)


def refused(*arguments: str) -> str:
  """What the command says before it runs anything."""
  with tempfile.TemporaryFile('w+') as errors:
    before, sys.stderr = sys.stderr, errors
    try:
      with pytest.raises(SystemExit) as ended:
        main(['aot', *arguments])
    finally:
      sys.stderr = before
    assert ended.value.code == 2
    errors.seek(0)
    return errors.read()


TRAIN = str(SCRIPTS / 'train.py')


@pytest.mark.parametrize('arguments, said', [
    (('--topology', 'v5e:2x2'), 'there is no script to run'),
    (('--topology', 'v5e:2x2', 'nowhere.py'), "no script 'nowhere.py'"),
    ((TRAIN,), '--topology is missing. Known are'),
    (('--topology', 'h100:8', TRAIN), "no kind of TPU is called 'h100'"),
    (('--topology', 'v5e:2x2', '--steps', '-1', TRAIN), '--steps'),
    (('--topology', 'v5e:2x2', '--host', '7', TRAIN), '1 host, counted'),
    (('--topology', 'v5e:2x2', '--require', 'prorgams<3', TRAIN), 'programs'),
    (('--topology', 'v5e:2x2', '-m'), '-m needs a module'),
])
def test_wrong_usage(arguments: tuple[str, ...], said: str) -> None:
  assert said in refused(*arguments)


def test_without_libtpu(monkeypatch: pytest.MonkeyPatch) -> None:
  # Whoever imports libtpu sets it, maybe before this process was forked.
  monkeypatch.setattr(launcher, 'started_with', lambda: None)
  monkeypatch.delenv('TPU_LIBRARY_PATH', raising=False)
  monkeypatch.setattr(sys, 'path', [])
  monkeypatch.delitem(sys.modules, 'libtpu', raising=False)
  sys.path_importer_cache.clear()
  assert "pip install 'torch_xla[tpu]'" in refused('--topology', 'v5e:2x2',
                                                   TRAIN)


@pytest.mark.parametrize('ending, status, told', [
    ('pass', settings.CANNOT_START, 'aot: the script never imported torch_xla'),
    ('1 / 0', 1, 'ZeroDivisionError: division by zero'),
])
def test_the_end_of_a_script_before_torch_xla(ending: str, status: int,
                                              told: str, tmp_path: Path):
  script = tmp_path / 'early.py'
  script.write_text(f'import sys\n{ending}\n')
  ended = subprocess.run([
      sys.executable, launcher._BOOTSTRAP,
      Settings(str(script), False, (), 'v5e:2x2', '', '').to_json()
  ],
                         stderr=subprocess.PIPE,
                         text=True,
                         check=False)
  assert ended.returncode == status
  assert ended.stderr.count('  File "') == ('/' in ending)  # The user's alone.
  assert ended.stderr.strip().endswith(told)
