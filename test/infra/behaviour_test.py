"""The suite of behaviours as others have it: its choice, its verdict, its command.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
import shutil
import subprocess
import sys
import sysconfig
import venv
from xml.etree import ElementTree

from infra_project import ROOT
import pytest
from torch_xla_behaviour import forms
from torch_xla_behaviour.command import make_parser
from torch_xla_behaviour.judge import Feature, ProbeResult, missing
from torch_xla_behaviour.report import Report
from torch_xla_behaviour.run import Asked, Outcome, Run
from torch_xla_behaviour.shared import expected_failures
from torch_xla_behaviour.shared.result import matches, Result, Status
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


# Which tests are run.

_NAMES = [f'{s.tests[0]}a_test.py::test_{i}[x-{i}]' for s in SUITES
          for i in range(50)]  # yapf: disable


def test_shards_have_each_test_once():
  shards = [[n
             for n in _NAMES
             if Asked({}, shard=(i, 4)).runs(n)]
            for i in (1, 2, 3, 4)]
  assert sorted(sum(shards, [])) == sorted(_NAMES)
  assert all(len(shard) > 20 for shard in shards)
  # Whatever other tests there are.
  assert [n for n in _NAMES[::2] if Asked({}, shard=(1, 4)).runs(n)
         ] == [n for n in shards[0] if n in _NAMES[::2]]


def test_only_and_skip():
  asked = Asked({}, only=['v2/*', '*test_7[[]*'], skip=['*test_7*'])
  # A bracket is one: only * and ? stand for something else.
  assert not matches('*test_7[[]*', _NAMES[7], '')
  assert matches(_NAMES[7], _NAMES[7], '')
  taken = [n for n in _NAMES if asked.runs(n)]
  assert len(taken) == 49
  assert all(n.startswith('v2/') for n in taken)


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


def test_what_is_asked_and_found_is_told_again(tmp_path):
  run = Run(tmp_path)
  asked = Asked({'v2-sharding': ('lacks', 'none')}, ['a'], ['b'], (1, 2))
  run.ask(asked)
  assert [*run.asked().shard] == [1, 2]
  assert run.asked().runs('a') == asked.runs('a')
  for status, kind in ((Status.FAILED, 'differs'), (Status.PASSED, ''),
                       (Status.SKIPPED, '')):
    run.write(Outcome(Result('a', '', status, 'é', .5), kind))
  # What fails has failed, whatever comes behind it.
  assert run.outcomes() == {
      'a': Outcome(Result('a', '', Status.FAILED, 'é', .5), 'differs')
  }


# What it comes to.

_FACTS = dict(
    file='/a/torch_xla/__init__.py',
    extension='/a/_XLAC.so',
    version='2.9.0',
    torch='2.9.0',
    python='3.11.7',
    form='native')
_HAS, _HAS_NOT = Feature(True, 'found'), Feature(False, 'there is no Mesh.f')
_V2_TEST = 'v2/reads_test.py::test_a[(1, 2)]'


def _report(kinds_by_name, lines='', v2=_HAS, tmp_path=None):
  """A report of a test of each suite, of which some fail."""
  names = ['retrace/a_test.py::test_a', 'identity/a_test.py::test_a', _V2_TEST,
           'priority/a_test.py::test_a']  # yapf: disable
  results = [
      Result(n, '', Status.FAILED if n in kinds_by_name else Status.PASSED,
             'because' if n in kinds_by_name else '', .1) for n in names
  ]
  if lines:
    path = tmp_path / 'known.txt'
    path.write_text(lines)
    results = expected_failures.judge(
        results, expected_failures.read(str(path)),
        lambda p: {n for n in names if matches(p, n, '')}, 'known.txt')
  features = {s.series: _HAS for s in SUITES} | {'v2-sharding': v2}
  return Report(
      ProbeResult(_FACTS, features), tuple(results), kinds_by_name, 2.)


def test_all_hold():
  report = _report({})
  assert report.exit_status == 0
  assert report.verdict == ('retracing: all 1 hold; graphs told apart: all 1 '
                            'hold; V2: all 1 hold; priorities: all 1 hold')


@pytest.mark.parametrize('kind, clause', [
    ('lacks', 'yours lacks V2'),
    ('differs', 'V2: yours differs in 1 of 1'),
    ('wrong', 'V2: yours is wrong in 1 of 1'),
])
def test_a_failure_is_told_as_what_it_is(kind, clause):
  report = _report({_V2_TEST: kind})
  assert report.exit_status == 1
  assert clause in report.verdict.split('; ')
  assert f'  {kind.upper()} {_V2_TEST}\n    because\n' in report.text()
  data = json.loads(forms.as_json(report))
  assert data['series']['v2-sharding'][kind] == 1
  assert [t['kind'] for t in data['tests']] == ['', '', kind, '']
  suite = ElementTree.fromstring(forms.as_junit(report))
  assert (suite.get('tests'), suite.get('failures')) == ('4', '1')
  failure = suite.find('testcase/failure')
  assert (failure.get('type'), failure.get('message')) == (kind, 'because')
  _, _, page = forms.as_page(report).partition('<h2>Tests')
  assert page.index(f'>{kind}<') < page.index('passed')


def test_an_expected_failure_is_none(tmp_path):
  report = _report({_V2_TEST: 'differs'},
                   f'{_V2_TEST.replace(" ", "?")} acme#17 not yet\n',
                   tmp_path=tmp_path)
  assert report.exit_status == 0
  assert 'V2: all 1 hold but for 1 expected' in report.verdict
  assert 'expected v2/reads_test.py::test_a[(1, 2)]: acme#17' in report.text()


def test_an_expectation_that_is_stale_is_a_finding(tmp_path):
  report = _report({}, 'v2/* not yet\n', tmp_path=tmp_path)
  assert report.exit_status == 1
  assert 'V2: yours has 1 stale expectation(s) of 1' in report.verdict
  assert 'STALE v2/*' in report.text()
  assert ElementTree.fromstring(
      forms.as_junit(report)).find('.//failure').get('type') == 'stale'


def test_nothing_that_was_run():
  report = Report(
      ProbeResult(_FACTS, {s.series: _HAS for s in SUITES}), (), {}, 0.)
  assert report.exit_status == 2


def test_what_is_missing_is_lacking_or_wrong():
  features = dict.fromkeys([s.series for s in SUITES], _HAS_NOT)
  features['sharding-priority'] = Feature(True, 'found; it aborts', False)
  # Retracing and graphs are judged by what happens.
  assert missing(features) == {
      'v2-sharding': ('lacks', 'there is no Mesh.f'),
      'sharding-priority': ('wrong', 'found; it aborts'),
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
  return subprocess.run([python, '-m', 'torch_xla_behaviour', *arguments],
                        cwd='/',
                        env=os.environ | {
                            'PYTHONPATH': os.pathsep.join(map(str, path)),
                            'XLA_USE_SHARDY': '1'
                        },
                        capture_output=True,
                        text=True,
                        timeout=1200,
                        check=False)


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
  done = _command(tmp_path / 'bin' / 'python', path=(unpacked,))
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


def test_help_names_the_ends_that_there_are():
  told = ' '.join(make_parser().format_help().split())
  assert told.endswith('or if nothing could be judged; 130 if interrupted.')


@pytest.mark.parametrize('arguments, message', [
    (('--shard', '5/4'), "'5/4' is no shard: give 1/4"),
    (('--expected-failures', 'no/such'), 'No such file'),
    (('--json', 'no/such/folder'), 'cannot be written'),
])
def test_wrong_usage(arguments, message, unpacked):
  done = _command(sys.executable, *arguments, path=(unpacked,))
  assert (done.returncode, message in done.stderr) == (2, True), done.stderr


# Some of each series, in as few processes as can be.
_FEW = sum((['--only', f'*{part}*']
            for part in ('replicated_spec_test.py::*fresh_input_every',
                         'through_another', 'alike_graphs_test.py::*leaves',
                         'two_by_four', 'numpy_that_are_no_integers')), [])


@pytest.mark.nightly
def test_official_wheel(official_wheel, unpacked, tmp_path):
  files = {name: tmp_path / name for name in ('json', 'html', 'junit')}
  done = _command(
      sys.executable,
      *_FEW,
      *(f'--{name}={path}' for name, path in files.items()),
      path=(official.unpacked(official_wheel, ROOT), unpacked))
  assert done.returncode == 1, done.stderr
  assert done.stdout.startswith('torch_xla 2.9.0, without torch_xla.shardy;')
  assert done.stdout.splitlines()[-1] == (
      'verdict: retracing: yours differs in 2, is wrong in 1 of 3; graphs told '
      'apart: yours is wrong in 1 of 1; yours lacks V2; yours lacks priorities')
  data = json.loads(files['json'].read_text())
  assert data['series']['v2-sharding']['lacks'] == 12
  assert all(path.stat().st_size for path in files.values())


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
  ran = sum(
      int(line.split()[0])
      for done in shards
      for line in done.stdout.splitlines()
      if line.endswith(' hold') and line.startswith('  '))
  assert ran == 18
  done = _command(
      sys.executable, *_FEW, '--expected-failures', known, path=(unpacked,))
  assert done.returncode == 1
  assert 'STALE identity/*leaves*' in done.stdout


@pytest.mark.nightly
def test_by_pytest(unpacked, tmp_path):
  done = subprocess.run([
      sys.executable, '-m', 'pytest', '--pyargs', 'torch_xla_behaviour', '-k',
      'two_by_four', '--junitxml=report.xml', '-p', 'no:cacheprovider'
  ],
                        cwd=tmp_path,
                        env=os.environ | {'PYTHONPATH': str(unpacked)},
                        capture_output=True,
                        text=True,
                        check=False)
  assert '10 passed' in done.stdout, done.stdout + done.stderr
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
def test_half_of_the_dynamo_series(official_wheel, unpacked, tmp_path):
  """The comparison mended and not the ids, as in pytorch/xla#9757."""
  fork = tmp_path / 'fork'
  shutil.copytree(official.unpacked(official_wheel, ROOT), fork)
  bridge, read = fork / _BRIDGE, 'torch_xla._XLAC._get_xla_sharding_specs('
  text = bridge.read_text()
  assert text.count(read) == 2
  bridge.write_text(
      text.replace(read, '_specs(') +
      f"\n\ndef _specs(t):\n  return [s or '{{replicated}}' for s in {read}t)]\n"
  )
  done = _command(
      sys.executable,
      '--only',
      'retrace/replicated_spec_test.py::*through*',
      path=(fork, unpacked))
  assert 'verdict: retracing: yours is wrong in 2 of 2' in done.stdout


@pytest.mark.nightly
def test_a_name_that_is_not_there(official_wheel, tmp_path):
  """Of a torch_xla that is found before one beside the suite."""
  fork, site = tmp_path / 'fork', tmp_path / 'site'
  for folder in fork, site:
    shutil.copytree(official.unpacked(official_wheel, ROOT), folder)
  module = fork / 'torch_xla/stablehlo.py'
  module.write_text(module.read_text() + 'del exported_program_to_stablehlo\n')
  shutil.unpack_archive(
      build_pure_wheel(ROOT, tmp_path, BEHAVIOUR), site, 'zip')
  done = _command(
      sys.executable, '--only', 'identity/exported*', path=(fork, site))
  assert '  LACKS identity/exported_arguments_test.py\n' in done.stdout
  assert done.returncode == 1


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
      '--only',
      'retrace/replicated_spec_test.py::*threshold*',
      path=(fork, unpacked))
  assert '  2 of 3 hold\n  WRONG retrace/replicated_spec_test.py::' in done.stdout
  assert 'the test process ended early (exit status -6)' in done.stdout
