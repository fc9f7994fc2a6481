"""The doctor and the compilation cache: both stand at the door of a process."""

from __future__ import annotations

import environments
import numpy as np
from processes import call
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy import cache, doctor

ENVIRONMENT = {}  # Beside the tests that need no child.
_SHARDY = environments.SHARDY


def run_program(size: int) -> None:
  """One program per size, with the numbers that it has to give."""
  t = torch.arange(float(size * size)).reshape(size, size)
  x = t.to('xla')
  mesh = xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))
  xs.mark_sharding(x, mesh, ('x', 'y'))
  y = x @ x
  torch_xla.sync(wait=True)
  torch.testing.assert_close(y.cpu(), t @ t)


def use_and_probe(root: str) -> list[tuple[str, int, int]]:
  """What was loaded and stored after each probe and each program."""
  xr.use_spmd()
  used = cache.use(root)
  counts = []

  def count(what: str) -> None:
    report = used.report()
    assert not report.damaged and not report.not_stored
    counts.append((what, report.loaded, report.stored))

  for step in ('probe', 'first', 'probe', 'second'):
    if step == 'probe':
      report = doctor.probe()
      assert report.ok, str(report)
      found = {f.check: f for f in report.findings}
      if not counts:
        # It sees loaded programs as it sees those that are compiled.
        assert found['probe.collective'].message.endswith(', by an all-reduce')
        assert found['probe.door'].status is doctor.Status.OK
      else:
        assert 'of an earlier probe' in found['probe.door'].message
    else:
      run_program(8 if step == 'first' else 16)
    count(step)
  return counts


@pytest.mark.slow
def test_what_is_compiled_after_a_probe_is_stored_and_loaded(tmp_path):
  cold = call(use_and_probe, str(tmp_path), **_SHARDY).value
  assert all(loaded == 0 for _, loaded, _ in cold)
  stored = [stored for _, _, stored in cold]
  probed, first, _, second = stored
  assert 0 < probed < first < second
  warm = call(use_and_probe, str(tmp_path), **_SHARDY).value
  assert [loaded for _, loaded, _ in warm] == stored
  assert all(stored == 0 for _, _, stored in warm)
