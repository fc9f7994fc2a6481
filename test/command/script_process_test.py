"""How the commands run a script."""

from __future__ import annotations

import os
from pathlib import Path
import subprocess
import sys

import pytest
from torch_xla_shardy import script_process


@pytest.fixture(autouse=True)
def _ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
  monkeypatch.setattr(sys, 'argv', list(sys.argv))
  monkeypatch.setattr(sys, 'path', list(sys.path))
  monkeypatch.chdir(tmp_path)


def test_a_script_finds_its_folder_from_another(tmp_path: Path):
  (tmp_path / 'script.py').write_text(
      'import os, sys\nos.chdir("/")\nfile, argv = __file__, sys.argv[:]\n')
  left = script_process.run('script.py', ['--json'])
  assert left.names['file'] == str(tmp_path / 'script.py')
  assert left.names['argv'] == [left.names['file'], '--json']


def test_os_exit_ends_the_script_alone_as_failed(tmp_path: Path):
  leave = os._exit
  (tmp_path / 'script.py').write_text('''
import os
child = os.fork()
if not child:
  os._exit(4)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) - 4)
''')
  assert script_process.run('script.py', []).failure == 'os._exit(0)'
  assert os._exit is leave


def test_a_module_with_its_arguments(tmp_path: Path):
  (tmp_path / 'pack').mkdir()
  (tmp_path / 'pack' /
   'mine.py').write_text('import sys\nargv = sys.argv[1:]\n')
  left = script_process.run('pack.mine', ['-q'], is_module=True)
  assert (left.names['argv'], left.failure) == (['-q'], '')


def test_an_error_has_the_frames_of_the_user_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]):
  (tmp_path / 'script.py').write_text('''
try:
  {}['x']
except KeyError as e:
  raise ValueError('mine') from e
''')
  assert script_process.run('script.py', []).failure == 'ValueError: mine'
  told = capsys.readouterr().err
  assert told.count('  File "') == 2 == told.count('script.py", line ')
  assert "KeyError: 'x'\n" in told


@pytest.mark.parametrize('way, said', [
    ('threading.Thread(target=os._exit, args=(0,)).start()',
     'ended with os._exit on a thread'),
    ('os.execvp("true", ["true"])', 'became another program'),
])
def test_an_end_that_cannot_be_waited_for_is_told(way: str, said: str,
                                                  tmp_path: Path):
  (tmp_path / 'script.py').write_text(f'''
import os, subprocess, threading
subprocess.run(['true'], check=True)
{way}
threading.Event().wait(60)
''')
  ended = subprocess.run([
      sys.executable, '-c', 'from torch_xla_shardy import script_process\n'
      'script_process.run("script.py", [])'
  ],
                         capture_output=True,
                         text=True,
                         check=False)
  assert ended.returncode == 3
  assert f'script.py {said}' in ended.stderr
