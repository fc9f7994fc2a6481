"""Tests of the tools that other tests run in: children and what they report."""

import subprocess
import sys
import textwrap

import pytest

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
