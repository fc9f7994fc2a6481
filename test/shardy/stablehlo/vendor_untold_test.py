"""What nobody told, and nobody tells: never one shard for all of a tensor."""

from __future__ import annotations

import dataclasses

import pytest
from sections import error, Run, Seen, sync
import torch
import vendor

ENVIRONMENT = {}  # Beside the tests that need no child.
_V2 = {
    **{
        k: v for k, v in vendor.VENDOR.items() if k != 'XLA_USE_SHARDY'
    },
    **vendor.STABLEHLO, 'XLA_SHARDING_V2': '1'
}


def _way(answers: str, variables=None, **settings: str) -> vendor.Way:
  way = vendor.SDY.told(ANSWERS=answers, **settings)
  return way if variables is None else dataclasses.replace(
      way, variables=variables)


def free_result(run: Run) -> Seen:
  """Nobody says anything of the result."""
  a = torch.arange(16.)
  x = a.to('xla')
  run.mark(x, (('x', 'y'),))
  sync()
  y = x + 1
  sync()
  return Seen(None, more=(tuple(y.cpu().shape), error(y, a + 1)))


def uneven_result(run: Run) -> Seen:
  a = torch.randn(16)
  x = a.to('xla')
  run.mark(x, (('x', 'y'),))
  sync()
  y = x[:10] * 2
  run.mark(y, (('x', 'y'),))
  sync()
  return Seen(None, more=error(y, a[:10] * 2))


def told_in_text(run: Run) -> Seen:
  a = torch.randn(8, 8)
  x = a.to('xla')
  run.mark(x, ('x', None), (0, 1))  # Open: a constraint says so.
  sync()
  for number in range(2):
    y = x * (number + 2)
    sync()
  return Seen(None, more=error(y, a * 3))


@pytest.mark.slow
@pytest.mark.parametrize('answers', [
    'none',
    pytest.param('silent', marks=pytest.mark.nightly),
    pytest.param('echo', marks=pytest.mark.nightly),
    pytest.param('mlir', marks=pytest.mark.nightly),
])
@pytest.mark.parametrize('variables', [None, _V2], ids=['Shardy', 'V2'])
def test_a_free_result_is_whole(answers, variables):
  ended = vendor.run(_way(answers, variables), free_result)[free_result]
  assert ended.seen.more == ((16,), 0)


@pytest.mark.slow
def test_an_uneven_result_is_padded():
  ended = vendor.run(_way('none'), uneven_result)[uneven_result]
  assert ended.seen.more == 0
  assert all(p.partitioner == 'shardy' for p in ended.programs)


@pytest.mark.slow
@pytest.mark.parametrize(
    'answers', ['none', pytest.param('mlir', marks=pytest.mark.nightly)])
def test_a_refused_dialect_is_told_in_text(answers):
  way = _way(answers, FORBIDS='sharding_constraint')
  ended = vendor.run(way, told_in_text)[told_in_text]
  assert ended.seen.more < 1e-6
  asked = [p for p in ended.programs if p.asked]
  assert {(p.form, p.partitioner) for p in asked} == {('attributes', 'shardy')}
