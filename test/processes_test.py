"""Tests of the tools that other tests run in: children and what they report."""

import os
import signal
import subprocess
import sys
import textwrap

import processes
import pytest

_SETTINGS = {'PJRT_DEVICE': 'CPU', 'CPU_NUM_DEVICES': '3'}


def _seen(name: str) -> tuple[str, bool, int]:
  import torch_xla
  print('said on stdout')
  print('said on stderr', file=sys.stderr)
  return (os.environ.get(name,
                         ''), torch_xla._XLAC._xla_runtime_is_initialized(),
          os.getpid())


def test_a_call_has_its_environment_and_a_process_of_its_own():
  called = processes.call(_seen, 'CPU_NUM_DEVICES', **_SETTINGS)
  devices, is_up, pid = called.value
  assert devices == '3' and not is_up and pid != os.getpid()
  assert 'said on stdout\n' in called.stdout
  assert 'said on stderr\n' in called.stderr
  again = processes.call(_seen, 'CPU_NUM_DEVICES', **_SETTINGS)
  assert again.value[2] != pid


def _fail() -> None:
  raise KeyError('on purpose')


def _die() -> None:
  os.kill(os.getpid(), signal.SIGSEGV)


@pytest.mark.parametrize('function, text', [
    (_fail, "KeyError: 'on purpose'"),
    (_die, 'exit status -11'),
])
def test_what_ends_a_child_is_an_error(function, text):
  with pytest.raises(AssertionError, match=text):
    processes.call(function, **_SETTINGS)


_MODULE = '''
import os
import pytest

ENVIRONMENT = {'PJRT_DEVICE': 'CPU', 'CPU_NUM_DEVICES': '2'}

def test_passes():
  assert os.environ['CPU_NUM_DEVICES'] == '2'

def test_fails():
  assert 1 + 1 == 3

def test_dies_before_others():
  os._exit(5)

def test_behind_it():
  assert os.environ['CPU_NUM_DEVICES'] == '2'

@pytest.mark.environment(CPU_NUM_DEVICES='5')
def test_alone():
  assert os.environ['CPU_NUM_DEVICES'] == '5'

@pytest.mark.skip(reason='on purpose')
def test_skipped():
  pass

@pytest.mark.environment()
def test_dies():
  os._exit(3)

@pytest.mark.environment()
def test_dies_at_its_end():
  import atexit
  atexit.register(os._exit, 4)
'''


@pytest.mark.nightly
def test_reports_of_children_are_the_sessions_own(tmp_path, request):
  """A failure, a skip and early deaths are shown, and nothing is lost."""
  (tmp_path / 'made_test.py').write_text(textwrap.dedent(_MODULE))
  tools = request.config.rootpath / 'test'
  (tmp_path / 'conftest.py').write_text(
      f'import sys\nsys.path.insert(0, {str(tools)!r})\n'
      f'exec(open({str(tools / "conftest.py")!r}).read())\n')
  done = subprocess.run([
      sys.executable, '-m', 'pytest', '-p', 'no:cacheprovider', '-q',
      '--rootdir',
      str(tmp_path),
      str(tmp_path)
  ],
                        cwd=tmp_path,
                        capture_output=True,
                        text=True,
                        timeout=200,
                        check=False)
  assert '4 failed, 3 passed, 1 skipped' in done.stdout, done.stdout
  assert 'assert (1 + 1) == 3' in done.stdout
  for status in (3, 4, 5):
    assert f'the test process ended early (exit status {status})' in done.stdout
