"""What the official wheel computes right in compiled programs, so do ours.

The programs are in `compiled_programs.py`. Where the official wheel retraces at
each step it hides faults that a graph traced once shows.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
import shutil
import sys

import compiled_programs
import environments
from infra_project import output_of, ROOT
import processes
import pytest

from infra.patchset.apply import apply_to_folder
from infra.patchset.manifest import load_manifest
from infra.patchset.patch import wheel_patches
from infra.wheel import official

_FEW, _ALL = 2, 200


def _outcomes(last: int, path: Path | None = None, **switches: str) -> dict:
  """The outcome of each program, with the torch_xla at a path or ours."""
  variables = dict(
      PJRT_DEVICE='CPU', CPU_NUM_DEVICES='8', PYTHONPATH=str(path or ''))
  script = Path(__file__).with_name('compiled_programs.py')
  printed = output_of(
      sys.executable,
      script,
      '0',
      str(last),
      env=variables | switches,
      timeout=3600)
  return json.loads(printed.splitlines()[-1])


@pytest.mark.slow
def test_few_programs():
  done = processes.ended(
      functools.partial(compiled_programs.main, 0, _FEW), **environments.SHARDY)
  # The official wheel has them all right.
  assert set(json.loads(done.stdout.splitlines()[-1]).values()) == {'right'}


@pytest.fixture(scope='module', name='rightly')
def rightly_fixture(official_wheel) -> set[str]:
  """The programs that the official wheel computes right."""
  found = _outcomes(_ALL, official.unpacked(official_wheel, ROOT))
  right = {seed for seed, outcome in found.items() if outcome == 'right'}
  assert len(right) > _ALL * 3 // 4
  return right


@pytest.mark.nightly
@pytest.mark.parametrize('switches', [{}, {
    'XLA_SHARDING_V2': '1'
}, {
    'XLA_USE_SHARDY': '1'
}])
def test_ours(rightly, switches):
  found = _outcomes(_ALL, **switches)
  assert {s: found[s] for s in rightly if found[s] != 'right'} == {}


@pytest.mark.nightly
def test_series_alone(rightly, official_wheel, tmp_path):
  folder = tmp_path / 'alone'
  shutil.copytree(official.unpacked(official_wheel, ROOT), folder)
  series, = load_manifest(ROOT).with_dependencies('dynamo-replicated-spec')
  apply_to_folder(folder, wheel_patches(ROOT, series))
  found = _outcomes(_ALL, folder)
  assert {s: found[s] for s in rightly if found[s] != 'right'} == {}
