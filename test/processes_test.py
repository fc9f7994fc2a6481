"""Tests of the tools that other tests run in: children and what they report."""

import os
import signal
import subprocess
import sys
import textwrap
import time

from fork_server import Place
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


def test_environments_do_not_mix():
  processes.call(_seen, 'CPU_NUM_DEVICES', **_SETTINGS)
  other = processes.call(_seen, 'CPU_NUM_DEVICES', PJRT_DEVICE='CPU')
  assert other.value[0] == ''


def _device_count() -> int:
  import torch_xla.runtime as xr
  return xr.global_runtime_device_count()


def test_the_runtime_starts_in_the_child():
  assert processes.call(_device_count, **_SETTINGS).value == 3
  assert not processes.call(_seen, '', **_SETTINGS).value[1]


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


@pytest.mark.slow
def test_a_child_that_hangs_is_ended():
  start = time.monotonic()
  ended = processes.servers.run(_sleep,
                                processes.clean_environment(**_SETTINGS), 4)
  assert ended.status is None
  assert time.monotonic() - start < 60


def _sleep() -> None:
  time.sleep(1000)


def test_what_python_reads_as_it_starts_needs_a_new_process():
  with pytest.raises(ValueError, match='PYTHONHASHSEED is read'):
    processes.call(_seen, '', PYTHONHASHSEED='1', **_SETTINGS)


def test_a_child_that_cannot_start_its_job_says_why():
  ended = processes.servers.run(_sleep,
                                processes.clean_environment(**_SETTINGS), 100,
                                Place(tuple(sys.path), '/no/such/folder'))
  assert ended.status == 1
  assert b'/no/such/folder' in ended.stderr


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
