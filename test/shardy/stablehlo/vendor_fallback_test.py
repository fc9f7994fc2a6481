"""What Shardy must not have, and parameters in one tuple: as StableHLO.

The whole of what a fallback does is tested in HLO (`fallback_test`); here a
vendor's plugin gets the same programs, which fall back for the same reason.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from sections import error, Run, Seen, sync
import torch
import torch_xla.distributed.spmd as xs
import vendor

ENVIRONMENT = {}  # Beside the tests that need no child.
pytestmark = pytest.mark.slow


def two_orders(on: Run) -> Seen:
  """Two meshes whose devices are in unrelated orders."""
  other = xs.Mesh(np.array([7, 1, 2, 3, 4, 5, 6, 0]), (4, 2), ('a', 'b'))
  a, b = torch.randn(8, 8), torch.randn(8, 8)
  x, y = a.to('xla'), b.to('xla')
  on.mark(x, ('x', 'y'), (0, 1))
  xs.mark_sharding(y, other, ('a', None), priority=(2, None))
  sync()
  z = x + y
  sync()
  return Seen(error(z, a + b))


@pytest.fixture(scope='module', name='ended')
def ended_fixture(request: pytest.FixtureRequest):
  return vendor.run_asked(request, 'HLO')


@pytest.mark.parametrize('way', [
    'sdy',
    pytest.param('converted', marks=pytest.mark.nightly),
])
@pytest.mark.parametrize('section', [two_orders])
def test_as_with_hlo(way, section, ended):
  one, hlo = ended[way, section], ended['HLO', section]
  assert one.seen == hlo.seen
  assert vendor.annotated(one) == vendor.annotated(hlo)
  made, = [p for p in one.programs if p.asked]
  assert (made.format, made.form, made.error) == ('mlir', 'mhlo.sharding', None)
  assert made.note.endswith(': GSPMD partitions')


def tupled(on: Run) -> Seen:
  host = [torch.randn(8, 8) for _ in range(6)]
  device = [t.to('xla') for t in host]
  for i, t in enumerate(device):
    on.mark(t, ('x', 'y') if i % 2 else (None, 'x'), (0, i))
  sync()
  for _ in range(2):
    total = sum(device) @ device[0]
    device[1].add_(1)
    sync()
  return Seen([
      error(total, (sum(host) + 1) @ host[0]) < 1e-4,
      error(device[1], host[1] + 2) < 1e-5
  ])


@pytest.mark.parametrize('way', [
    'sdy',
    pytest.param('XLA', marks=pytest.mark.nightly),
    pytest.param('XLA, converted', marks=pytest.mark.nightly),
    pytest.param('converted', marks=pytest.mark.nightly),
])
def test_tupled_parameters(way):
  """Converted from HLO; what is donated of a tuple's elements is not known."""
  way = dataclasses.replace(
      vendor.WAYS[way],
      variables={
          **vendor.WAYS[way].variables, 'XLA_PARAMETER_WRAPPING_THREADSHOLD':
              '2'
      })
  assert vendor.run(way, tupled)[tupled].seen.same == [True, True]
