"""Tests that the series add to upstream's files, on the installed wheel.

With all series together, on eight devices and on one; each file runs as upstream
runs it. The variable UPSTREAM_CLONE names a clone of pytorch/xla, tags and all.
"""

import ast
import os
from pathlib import Path
import sys

from infra_project import ROOT, run
import pytest

from infra.patchset import git
from infra.patchset.manifest import ALL, load_manifest
from infra.patchset.worktree import work_tree, Worktree

_CLONE = os.environ.get('UPSTREAM_CLONE', '')
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not _CLONE, reason='UPSTREAM_CLONE names no clone')
]
_BASE = 'v2.9.0'
# What their tests are of is C++; the wheel has it otherwise (test/behaviour).
_NATIVE = frozenset(('graph-identity', 'sharding-priority', 'v2-sharding'))


@pytest.fixture(scope='module', name='tree')
def tree_fixture():
  """A work tree with all series but those, and the commit that they start at."""
  with work_tree(Path(_CLONE)) as tree:
    worktree = Worktree(ROOT, load_manifest(ROOT), tree)
    laid = worktree.lay([
        series for series in worktree.manifest.with_dependencies(ALL)
        if series.base == _BASE and series.name not in _NATIVE
    ], _BASE)
    assert not [entry for entry in laid.patches if entry.conflict]
    yield tree, laid.start


def _tests_of(text: str) -> set[str]:
  return {
      f'{owner.name}.{test.name}' for owner in ast.parse(text).body
      if isinstance(owner, ast.ClassDef) for test in owner.body
      if isinstance(test, ast.FunctionDef) and test.name.startswith('test_')
  }


@pytest.mark.parametrize('devices', [8, 1])
def test_added_tests_hold_on_the_wheel(tree, devices, tmp_path):
  folder, start = tree
  changed = git.need(folder, 'diff', '--name-only', start, 'HEAD', '--',
                     'test/*.py').split()
  # test_dynamo.py imports it for tests of models, which are not added.
  (tmp_path / 'torchvision.py').touch()
  failed, count = {}, 0
  for path in changed:
    before = git.run(folder, 'show', f'{start}:{path}').stdout
    added = _tests_of((folder / path).read_text()) - _tests_of(before)
    if not added:
      continue
    count += len(added)
    variables = dict(
        PJRT_DEVICE='CPU',
        CPU_NUM_DEVICES=str(devices),
        PYTHONPATH=str(tmp_path))
    done = run(sys.executable, folder / path, *sorted(added), env=variables)
    if done.returncode:
      failed[path] = done.stderr[-3000:]
  assert count > 20
  assert not failed, '\n'.join(
      f'{path}:\n{text}' for path, text in failed.items())
