"""Judging a torch_xla: the official wheel, ours, broken ones, one at fault."""

import json
from pathlib import Path
import shutil
import sys
import sysconfig
import venv

from infra_project import ROOT
import pytest

from infra.against.__main__ import main
from infra.patchset.apply import apply_to_folder
from infra.patchset.manifest import load_manifest
from infra.patchset.patch import wheel_patches
from infra.wheel import official

# Some of each series, in as few processes as can be.
_FEW = ('-k', '(fresh_input_every or that_share_data or through_another) or '
        'two_by_four or numpy_that_are_no_integers')
_SITE = Path(sysconfig.get_paths()['purelib'])
_BRIDGE = 'torch_xla/_dynamo/dynamo_bridge.py'


def _judged(capfd, *arguments: str) -> tuple[int, list[str], str]:
  """The exit status, the report, and what went to stderr."""
  status = main([*map(str, arguments)])
  said = capfd.readouterr()
  lines = said.out.splitlines()
  starts = [i for i, line in enumerate(lines) if line.startswith('torch_xla ')]
  return status, lines[starts[0]:] if starts else [], said.err


def _section(report: list[str], series: str) -> list[str]:
  """The lines of one series."""
  start = report.index(series) + 1
  return report[start:start + report[start:].index('')]


@pytest.mark.nightly
def test_official_wheel(official_wheel, capfd, tmp_path, monkeypatch):
  # Of which nothing is to be found there.
  monkeypatch.setenv('PYTHONPATH', str(ROOT))
  monkeypatch.setenv('XLA_USE_SHARDY', '1')
  written = tmp_path / 'report.json'
  status, report, _ = _judged(capfd, '--wheel', official_wheel, '--json',
                              written, *_FEW)
  assert status == 1
  assert report[0] == 'torch_xla 2.9.0, without torch_xla.shardy'
  assert all('build/against/' in line for line in report[1:3])
  retracing = _section(report, 'dynamo-replicated-spec')
  assert retracing[0].endswith(' with fresh inputs: traces 3')
  assert retracing[1] == '  1 of 8 hold'
  failed = [line for line in retracing if line.startswith('  FAILED ')]
  assert len(failed) == 7
  assert failed[0].endswith('::test_fresh_input_every_step_traces_once')
  assert '    assert 4 == 1' in retracing
  for series, count in (('v2-sharding', 10), ('sharding-priority', 2)):
    lines = _section(report, series)
    assert lines[0].startswith('  not found: there is no ')
    assert lines[1:] == [f'  not run, as the feature is absent: {count} tests']
  assert report[-1] == ('verdict: this torch_xla has none of the three '
                        'features: retracing 7 of 8 fail, no V2, no priorities')
  data = json.loads(written.read_text())
  assert data['verdict'] == report[-1]
  assert data['exit_status'] == 1
  dynamo = data['series']['dynamo-replicated-spec']
  assert (dynamo['ran'], len(dynamo['failed'])) == (8, 7)
  assert data['needs_the_wheel']['trust']['parts'][0] == 'policy'


@pytest.mark.nightly
def test_ours(capfd):
  status, report, _ = _judged(capfd, '--against', sys.executable, *_FEW)
  assert status == 0, report
  assert report[0].endswith(', with torch_xla.shardy')
  assert report[1] == f'  {_SITE}/torch_xla/__init__.py'
  for series, count in (('dynamo-replicated-spec', 8), ('v2-sharding', 10),
                        ('sharding-priority', 2)):
    lines = _section(report, series)
    assert lines[0].startswith('  found: ')
    assert lines[1:] == [f'  {count} of {count} hold']
  assert report[-1] == ('verdict: all three features are there, and all 20 '
                        'tests hold')
  assert any(
      line.startswith('  trust: ') and ' files (policy, ' in line
      for line in report)


# Environments of somebody's own.


class _Environment:
  """A venv with the packages of this one, but for some.

  Attributes:
    python: its interpreter.
    site: where its packages are.
  """

  def __init__(self, folder: Path, without: tuple[str, ...]):
    venv.create(folder, with_pip=False, symlinks=True)
    self.python = folder / 'bin' / 'python'
    self.site = folder / _SITE.relative_to(sys.prefix)
    for path in _SITE.iterdir():
      if not path.name.lower().startswith(('__pycache__', *without)):
        (self.site / path.name).symlink_to(path)

  def names(self) -> set[str]:
    return {path.name for path in self.site.iterdir()} - {'__pycache__'}


_TORCH_XLA = ('torch_xla', '_xlac', 'torchax')
_PYTESTS = ('pytest', '_pytest', 'hypothesis', '_hypothesis', 'rich')


def test_no_torch(capfd, tmp_path):
  venv.create(tmp_path, with_pip=False, symlinks=True)
  python = tmp_path / 'bin' / 'python'
  status, _, error = _judged(capfd, '--against', python)
  assert status == 2
  assert error == (f'error: {python} has no torch: install it there, or name '
                   'another interpreter\n')


def test_no_torch_xla(capfd, tmp_path, monkeypatch):
  """The checkout's folder of that name is none."""
  environment = _Environment(tmp_path, _TORCH_XLA)
  (environment.site / 'checkout.pth').write_text(f'{ROOT}\n')
  monkeypatch.chdir(ROOT)
  status, _, error = _judged(capfd, '--against', environment.python)
  assert status == 2
  assert f'{environment.python} has no torch_xla: install it there' in error


def test_torch_xla_that_cannot_be_imported(capfd, tmp_path):
  environment = _Environment(tmp_path, _TORCH_XLA)
  package = environment.site / 'torch_xla'
  package.mkdir()
  (package / '__init__.py').write_text('import _XLAC_that_is_not_there\n')
  status, _, error = _judged(capfd, '--against', environment.python)
  assert status == 2
  assert 'has a torch_xla that cannot be imported:' in error
  assert "No module named '_XLAC_that_is_not_there'" in error


@pytest.mark.parametrize('python, message', [
    ('no/such/python', 'no/such/python is no interpreter'),
    ('/bin/true', "/bin/true is no Python: it said ''"),
])
def test_no_interpreter(python, message, capfd):
  status, _, error = _judged(capfd, '--against', python)
  assert status == 2
  assert message in error


@pytest.mark.parametrize('name, message', [
    ('torch_xla-2.9.0-cp39-cp39-manylinux_2_28_x86_64.whl',
     'is for cp39, and '),
    ('torch_xla-2.9.0-{mine}-{mine}-macosx_11_0_arm64.whl',
     'is for macosx_11_0_arm64, and this machine is linux_'),
    ('torch-2.9.0-{mine}-{mine}-manylinux_2_28_x86_64.whl',
     'is a wheel of torch, not of torch_xla'),
    ('torch_xla.zip', 'is not named as a wheel is'),
    ('torch_xla-2.9.0-{mine}-{mine}-manylinux_2_28_x86_64.whl',
     'is not a wheel: File is not a zip file'),
])
def test_wrong_wheels(name, message, capfd, tmp_path):
  mine = f'cp{sys.version_info.major}{sys.version_info.minor}'
  wheel = tmp_path / name.format(mine=mine)
  wheel.write_bytes(b'no wheel')
  status, _, error = _judged(capfd, '--wheel', wheel)
  assert status == 2
  assert message in error


def test_no_wheel(capfd):
  status, _, error = _judged(capfd, '--wheel', 'no/such/file.whl')
  assert status == 2
  assert error == 'error: no/such/file.whl: there is no such file\n'


def _with_dynamo_series(folder: Path, official_wheel: Path, old: str,
                        new: str) -> _Environment:
  """One without pytest, with the official wheel, mended but for one edit."""
  environment = _Environment(folder, (*_TORCH_XLA, *_PYTESTS))
  unpacked = official.unpacked(official_wheel, ROOT)
  for path in unpacked.iterdir():
    if path.name != 'torch_xla':
      (environment.site / path.name).symlink_to(path)
  shutil.copytree(unpacked / 'torch_xla', environment.site / 'torch_xla')
  series, = load_manifest(ROOT).with_dependencies('dynamo-replicated-spec')
  apply_to_folder(environment.site, wheel_patches(ROOT, series))
  bridge = environment.site / _BRIDGE
  text = bridge.read_text()
  assert text.count(old) == 1
  bridge.write_text(text.replace(old, new))
  return environment


@pytest.mark.nightly
def test_half_of_the_dynamo_series(official_wheel, capfd, tmp_path):
  """The comparison mended and not the ids, as in pytorch/xla#9757.

  Nothing gets installed into the environment.
  """
  environment = _with_dynamo_series(tmp_path, official_wheel,
                                    ', list(xla_args_tensor_only))', ')')
  before = environment.names()
  status, report, _ = _judged(capfd, '--against', environment.python, *_FEW)
  assert status == 1
  assert report[1] == f'  {environment.site}/torch_xla/__init__.py'
  lines = _section(report, 'dynamo-replicated-spec')
  assert lines[0].startswith('  found: ')
  assert lines[1] == '  6 of 8 hold'
  assert [line.rpartition('::')[2] for line in lines if 'FAILED' in line] == [
      'test_input_that_went_through_another_graph[True]',
      'test_input_that_went_through_another_graph[False]'
  ]
  assert report[-1] == 'verdict: retracing 2 of 8 fail, no V2, no priorities'
  assert environment.names() == before


@pytest.mark.nightly
def test_a_process_that_dies_costs_one_test(official_wheel, capfd, tmp_path):
  """The tests that would have come behind it run in another process."""
  call = '    return extract_compiled_graph_helper(xla_model, xla_args)\n'
  environment = _with_dynamo_series(
      tmp_path, official_wheel, call,
      "    if os.getenv('XLA_DYNAMO_INPUT_SHARDING_CHECK_THRESHOLD') == '0':\n"
      f'      os.abort()\n{call}')
  status, report, _ = _judged(capfd, '--against', environment.python, '-k',
                              'threshold')
  assert status == 1
  assert _section(report, 'dynamo-replicated-spec')[1:] == [
      '  2 of 3 hold',
      '  FAILED retrace/replicated_spec_test.py::'
      'test_threshold_ends_the_check[0]',
      '    the test process ended early (exit status -6):',
  ]
