"""The suite of behaviours as others have it: its choice, its verdict, its command.
"""

from __future__ import annotations

import os
from pathlib import Path
import re
import shutil
import subprocess
import sys
import sysconfig
import types
from typing import NamedTuple
from unittest import mock
import venv
from xml.etree import ElementTree

from infra_project import output_of, ROOT, run
import pytest
from torch_xla_behaviour import conftest as plugin
from torch_xla_behaviour.features import ProbeResult
from torch_xla_behaviour.suites import suite_of, SUITES
from torch_xla_behaviour.tests import kinds

from infra.patchset.apply import apply_to_folder
from infra.patchset.manifest import load_manifest
from infra.patchset.patch import wheel_patches
from infra.wheel import official, pins
from infra.wheel.pure_wheel import build_pure_wheel
from infra.wheel.tools import BEHAVIOUR

_SITE = Path(sysconfig.get_paths()['purelib'])
_BRIDGE = 'torch_xla/_dynamo/dynamo_bridge.py'

# What failures say.

_OF_TEST = Path(kinds.__file__).resolve().with_name('v2') / 'some_test.py'
_OF_TORCH_XLA = Path('site-packages/torch_xla/runtime.py')
_RIGHT = AssertionError('assert 4 == 1')

# Not in the decorator: what a failing test shows would name these errors.
_KINDS = [
    (kinds.WrongError(), _OF_TEST, None, 'wrong'),
    (kinds.WrongError(), _OF_TEST, 'differs', 'wrong'),
    (_RIGHT, _OF_TEST, None, 'differs'),
    (pytest.fail.Exception('DID NOT RAISE'), _OF_TEST, None, 'differs'),
    (RuntimeError('Check failed'), _OF_TEST, None, 'wrong'),
    (RuntimeError('Check failed'), _OF_TEST, 'differs', 'differs'),
    (AttributeError('no use_shardy'), _OF_TEST, None, 'lacks'),
    (ImportError('no stablehlo'), _OF_TEST, 'differs', 'lacks'),
    (AttributeError('NoneType'), _OF_TORCH_XLA, None, 'wrong'),
    (TypeError("got an unexpected keyword argument 'priority'"), _OF_TEST, None,
     'lacks'),
    (TypeError("got an unexpected keyword argument 'priority'"), _OF_TORCH_XLA,
     None, 'wrong'),
]


@pytest.mark.parametrize('error, file, marked, kind', _KINDS)
def test_kinds_of_failures(error, file, marked, kind):
  assert kinds.of(error, file, marked) == kind


@pytest.mark.environment()
def test_numbers_that_are_wrong():
  import torch
  kinds.assert_right(torch.ones(2) + 1e-6, torch.ones(2), 1e-5, 'one')
  for got, tolerance in ((torch.ones(2) + 1e-4, 1e-5), (torch.ones(3), None),
                         (torch.full((2,), float('nan')), 1e9)):
    with pytest.raises(kinds.WrongError, match='^one '):
      kinds.assert_right(got, torch.ones(2), tolerance, 'one')
  with pytest.raises(kinds.WrongError):
    kinds.assert_told_apart(b'a', b'a')


# Which tests are run, and what it comes to.

_FACTS = dict(
    file='/a/torch_xla/__init__.py',
    extension='/a/_XLAC.so',
    version='2.9.0',
    torch='2.9.0',
    python='3.11.7',
    form='native')
_HAS, _HAS_NOT = (True, 'found'), (False, 'there is no Mesh.f')
_V2_TEST = 'v2/reads_test.py::test_a[(1, 2)]'
_NAMES = ['retrace/a_test.py::test_a', 'identity/a_test.py::test_a', _V2_TEST,
          'priority/a_test.py::test_a']  # yapf: disable


class _Config(NamedTuple):
  options: dict[str, object]

  def getoption(self, name: str, default: object) -> object:
    return self.options.get(name, default)


def _judge(**options) -> plugin._Judge:
  judge = plugin._Judge(
      _Config(options), ProbeResult(_FACTS, {s.series: _HAS for s in SUITES}))
  judge._names = {name: name for name in _NAMES}
  return judge


def _judged(kinds_by_name, lines='', tmp_path=None) -> tuple[str, str]:
  """The verdict and the text on a test of each suite, of which some fail."""
  options = {}
  if lines:
    (tmp_path / 'known.txt').write_text(lines)
    options['expected_failures'] = plugin._expected(tmp_path / 'known.txt')
  judge = _judge(**options)
  for name in _NAMES:
    kind = kinds_by_name.get(name)
    judge.pytest_runtest_logreport(
        pytest.TestReport(
            name, (name, 0, name), {},
            'failed' if kind else 'passed',
            'because' if kind else None,
            'call',
            user_properties=[('kind', kind)] if kind else ()))
  lines: list[str] = []
  judge.pytest_terminal_summary(types.SimpleNamespace(line=lines.append))
  return lines[-1].strip().removeprefix('verdict: '), '\n'.join(lines)


def test_shards_have_each_test_once():
  names = [f'{s.tests[0]}a_test.py::test_{i}' for s in SUITES
           for i in range(50)]  # yapf: disable
  shards = []
  for number in 1, 2, 3, 4:
    items = [types.SimpleNamespace(nodeid=name) for name in names]
    judge, config = _judge(shard=(number, 4)), mock.MagicMock()
    with mock.patch.object(plugin, 'name_of', lambda path, node: node):
      for item in items:
        item.path = None
      hook = judge.pytest_collection_modifyitems(config, items)
      next(hook)
      with pytest.raises(StopIteration):
        next(hook)
    shards.append([item.nodeid for item in items])
  assert sorted(sum(shards, [])) == sorted(names)
  assert all(len(shard) > 20 for shard in shards)


@pytest.mark.parametrize('name, series', [
    ('retrace/replicated_spec_test.py::test_a', 'dynamo-replicated-spec'),
    ('retrace/replicated_spec_door_test.py::test_a', 'v2-sharding'),
    ('identity/alike_graphs_test.py', 'graph-identity'),
])
def test_each_test_is_of_a_suite(name, series):
  assert suite_of(name).series == series


def test_each_file_is_of_a_suite():
  for path in (ROOT / 'test/behaviour').rglob('*_test.py'):
    name = path.relative_to(ROOT / 'test/behaviour').as_posix()
    assert name.startswith(suite_of(name).tests), name


def test_all_hold():
  verdict, _ = _judged({})
  assert verdict == (
      'retracing: all 1 hold; graphs told apart: all 1 hold; V2: '
      'all 1 hold; priorities: all 1 hold')


@pytest.mark.parametrize('kind, clause', [
    ('lacks', 'yours lacks V2'),
    ('differs', 'V2: yours differs in 1 of 1'),
    ('wrong', 'V2: yours is wrong in 1 of 1'),
])
def test_a_failure_is_reported_by_its_kind(kind, clause):
  verdict, text = _judged({_V2_TEST: kind})
  assert clause in verdict.split('; ')
  assert f'  {kind.upper()} {_V2_TEST}\n    because\n' in text


def test_an_expected_failure_is_none(tmp_path):
  verdict, text = _judged({_V2_TEST: 'differs'},
                          f'{_V2_TEST.replace(" ", "?")} acme#17 not yet\n',
                          tmp_path)
  assert 'V2: all 0 hold but for 1 expected' in verdict.replace(
      'all 1', 'all 0')
  assert 'DIFFERS' not in text and 'STALE' not in text


def test_an_expectation_that_is_stale_is_a_finding(tmp_path):
  (tmp_path / 'known.txt').write_text('v2/* not yet\n')
  judge = _judge(expected_failures=plugin._expected(tmp_path / 'known.txt'))
  judge._outcomes = dict.fromkeys(_NAMES, ('', ''))
  session = types.SimpleNamespace(exitstatus=0)
  judge.pytest_sessionfinish(session, 0)
  assert (session.exitstatus, judge._stale()) == (1, ['v2/*'])
  # Nothing is known of what was not run.
  del judge._outcomes[_V2_TEST]
  assert not judge._stale()


def test_what_is_missing_is_not_run():
  features = dict.fromkeys([s.series for s in SUITES], _HAS_NOT)
  features['sharding-priority'] = _HAS
  # Retracing and graphs are judged by what happens.
  assert ProbeResult(_FACTS, features).missing == {
      'v2-sharding': 'there is no Mesh.f'
  }


# The command, in environments of somebody's own.


@pytest.fixture(scope='module', name='unpacked')
def unpacked_fixture(tmp_path_factory) -> Path:
  """The wheel, as pip lays it."""
  folder = tmp_path_factory.mktemp('wheel')
  shutil.unpack_archive(
      build_pure_wheel(ROOT, folder, BEHAVIOUR), folder / 'unpacked', 'zip')
  return folder / 'unpacked'


def _command(python: str | Path, *arguments: str | Path,
             path: tuple[Path, ...]) -> subprocess.CompletedProcess[str]:
  variables = dict(
      PYTHONPATH=os.pathsep.join(map(str, path)), XLA_USE_SHARDY='1')
  return run(
      python,
      '-m',
      'torch_xla_behaviour',
      *arguments,
      env=variables,
      cwd='/',
      timeout=1200)


def test_wheel_needs_no_torch(unpacked):
  metadata = unpacked / BEHAVIOUR.info / 'METADATA'
  needs = [
      line.split(':')[1].strip()
      for line in metadata.read_text().splitlines()
      if line.startswith('Requires-Dist')
  ]
  assert needs == ['numpy', 'pytest>=8', 'rich']
  assert f'Version: {pins.VERSION}\n' in metadata.read_text()


def test_no_torch(unpacked, tmp_path):
  venv.create(tmp_path, with_pip=False, symlinks=True)
  for name in ('pytest', '_pytest', 'py.py', 'pluggy', 'iniconfig', 'packaging',
               'pygments'):
    (tmp_path / name).symlink_to(_SITE / name)
  done = _command(tmp_path / 'bin' / 'python', path=(unpacked, tmp_path))
  assert done.returncode == 2
  assert 'has no torch: install this suite where' in done.stderr


def test_torch_xla_that_cannot_be_imported(unpacked, tmp_path):
  for name, text in (('torch', ''), ('torch_xla', 'import _not_there\n')):
    (tmp_path / name).mkdir()
    (tmp_path / name / '__init__.py').write_text(text)
  done = _command(sys.executable, path=(tmp_path, unpacked))
  assert done.returncode == 2
  assert 'has a torch_xla that cannot be imported:' in done.stderr
  assert "No module named '_not_there'" in done.stderr


@pytest.mark.parametrize('arguments, message', [
    (('--shard', '5/4'), "'5/4' is no shard: give 1/4"),
    (('--expected-failures', 'no/such'), 'No such file'),
])
def test_wrong_usage(arguments, message, unpacked):
  done = _command(sys.executable, *arguments, path=(unpacked,))
  assert (done.returncode, message in done.stderr) == (2, True), done.stderr


# Some of each series, in as few processes as can be.
_FEW = ('-k',
        'fresh_input_every or through_another or (alike_graphs and leaves) '
        'or two_by_four or numpy_that_are_no_integers')


@pytest.mark.nightly
def test_official_wheel(official_wheel, unpacked):
  done = _command(
      sys.executable,
      *_FEW,
      path=(official.unpacked(official_wheel, ROOT), unpacked))
  assert done.returncode == 1, done.stderr
  assert 'torch_xla 2.9.0, form native;' in done.stdout
  assert (
      'verdict: retracing: yours differs in 2, is wrong in 1 of 3; graphs told '
      'apart: yours is wrong in 1 of 1; yours lacks V2; yours lacks priorities'
  ) in done.stdout
  # Each missing feature is told once, and the progress has no letters of it.
  assert done.stdout.count('  LACKS ') == 2
  assert not re.search('^[.F]*E', done.stdout, re.MULTILINE)


@pytest.mark.nightly
def test_ours(unpacked, tmp_path):
  """All that is expected to fail here does not."""
  known = tmp_path / 'known'
  known.write_text('identity/*leaves* does it\n')
  shards = [
      _command(sys.executable, *_FEW, '--shard', f'{i}/2', path=(unpacked,))
      for i in (1, 2)
  ]
  assert [done.returncode for done in shards] == [0, 0], shards
  passed = [re.search(r'(\d+) passed', done.stdout)[1] for done in shards]
  assert sum(map(int, passed)) == 19
  done = _command(
      sys.executable, *_FEW, '--expected-failures', known, path=(unpacked,))
  assert done.returncode == 1
  assert 'STALE identity/*leaves*' in done.stdout


@pytest.mark.nightly
def test_by_pytest(unpacked, tmp_path):
  command = [
      sys.executable, '-m', 'pytest', '--pyargs', 'torch_xla_behaviour', '-k',
      'two_by_four', '--junit-xml=report.xml', '-p', 'no:cacheprovider'
  ]
  assert '10 passed' in output_of(
      *command, cwd=tmp_path, env={'PYTHONPATH': str(unpacked)})
  suite = ElementTree.parse(tmp_path / 'report.xml').getroot()[0]
  assert suite.get('tests') == '10'


def _with_dynamo_series(folder: Path, official_wheel: Path, old: str,
                        new: str) -> Path:
  """The official wheel, mended but for one edit."""
  source = official.unpacked(official_wheel, ROOT)
  shutil.copytree(source, folder)
  series, = load_manifest(ROOT).with_dependencies('dynamo-replicated-spec')
  apply_to_folder(folder, wheel_patches(ROOT, series))
  bridge = folder / _BRIDGE
  text = bridge.read_text()
  assert text.count(old) == 1
  bridge.write_text(text.replace(old, new))
  return folder


@pytest.mark.nightly
def test_a_process_that_dies_costs_one_test(official_wheel, unpacked, tmp_path):
  """The tests that would have come behind it run in another process."""
  call = '    return extract_compiled_graph_helper(xla_model, xla_args)\n'
  fork = _with_dynamo_series(
      tmp_path / 'fork', official_wheel, call,
      "    if os.getenv('XLA_DYNAMO_INPUT_SHARDING_CHECK_THRESHOLD') == '0':\n"
      f'      os.abort()\n{call}')
  done = _command(
      sys.executable,
      '-k',
      'replicated_spec_test and threshold',
      path=(fork, unpacked))
  assert '  WRONG retrace/replicated_spec_test.py::' in done.stdout
  assert 'is wrong in 1 of 3' in done.stdout
  assert 'the test process ended early (exit status -6)' in done.stdout
