"""A mode that is switched on by variables set after the import.

Scripts set them just before `use_spmd`, as those of tt-xla do.
"""

from __future__ import annotations

import os

from kinds import assert_right
from marks import placed, put, sync
import numpy as np
import placements
import pytest
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla_form import OFF, SHARDY

ENVIRONMENT = OFF


@pytest.mark.parametrize('order, winner', [
    pytest.param(*case, marks=pytest.mark.environment())
    for case in (((0, 1), 'x'), ((1, 0), 'y'))
])
def test_priorities_count(order, winner, monkeypatch):
  for name, text in SHARDY.items():
    monkeypatch.setenv(name, text)
  assert os.environ.items() >= SHARDY.items()
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))
  a, b = (put(mesh, (8, 8), (axis, None), (priority, None))
          for axis, priority in zip('xy', order))
  out = a + b
  sync()
  assert_right(out, a.cpu() + b.cpu(), 0)
  assert placed(out) == placements.of_spec(mesh, (winner, None))
