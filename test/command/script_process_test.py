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
  assert left['file'] == str(tmp_path / 'script.py')
  assert left['argv'] == [left['file'], '--json']


def test_os_exit_ends_the_script_alone(tmp_path: Path):
  leave = os._exit
  (tmp_path / 'script.py').write_text('''
import os
child = os.fork()
if not child:
  os._exit(4)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) + 1)
''')
  with pytest.raises(SystemExit) as ended:
    script_process.run('script.py', [])
  assert ended.value.code == 5
  assert os._exit is leave


def test_os_exit_on_a_thread_is_told(tmp_path: Path):
  (tmp_path / 'script.py').write_text('''
import os, threading
threading.Thread(target=os._exit, args=(0,)).start()
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
  assert 'script.py ended with os._exit on a thread' in ended.stderr
