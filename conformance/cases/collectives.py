"""Tensors moved from one sharding to another, exactly."""

from __future__ import annotations

from collections.abc import Sequence
import functools
import random

from ..case import Case, Needs
from ..context import Context
from ..torch_session import (annotated, check_equal, check_shards, DATA, MODEL,
                             recorded, TorchSession)

# What it is stored as, and what it becomes.
_MOVES = {
    'all_gather': ((DATA, MODEL), (DATA, None)),
    'gather_both': ((DATA, MODEL), (None, None)),
    'scatter': ((None, None), (DATA, MODEL)),
    'all_to_all': ((MODEL, None), (None, MODEL)),
    'all_to_all_both': (((DATA, MODEL), None), (None, (DATA, MODEL))),
    'permute': ((DATA, MODEL), (MODEL, DATA)),
    'turn': (((DATA, MODEL), None), ((MODEL, DATA), None)),
    'split_on': ((DATA, None), ((DATA, MODEL), None)),
}
_SUMS = {
    'all_reduce': ((None, MODEL), (MODEL, None), (None, None)),
    'all_reduce_data': ((None, DATA), (DATA, None), (None, None)),
    'all_reduce_both': (
        (None, (DATA, MODEL)), ((DATA, MODEL), None), (None, None)),
    'reduce_scatter': ((None, MODEL), (MODEL, None), (MODEL, None)),
    'reduce_scatter_columns': ((None, MODEL), (MODEL, None), (None, MODEL)),
}
MESHES = ('straight', 'turned', 'shuffled')


def device_ids(session: TorchSession, mesh: str) -> Sequence[int]:
  """The devices of a mesh in their order.

  They stand as they are, column by column, or in an order that is no reshape
  and transpose of them.
  """
  ids = list(range(session.count))
  data, model = session.grid_shape
  if mesh == 'turned':
    return [ids[d + m * data] for d in range(data) for m in range(model)]
  if mesh == 'shuffled':
    random.Random(0).shuffle(ids)
  return ids


def _move(context: Context, part: str) -> str:
  mesh_name, move = part.split('.')
  session = context.torch()
  mesh = session.grid(device_ids(session, mesh_name))
  before, after = _MOVES[move]
  host = session.even_numbers()
  tensor = annotated(session.to_device(host), mesh, before)
  with recorded() as programs:
    moved = annotated(tensor + 1, mesh, after)
  check_shards(tensor, host, mesh, before, 'before')
  check_shards(moved, host + 1, mesh, after, 'after')
  check_equal(moved.cpu(), host + 1, 'as a whole')
  return _collectives(programs)


def _sum(context: Context, part: str) -> str:
  mesh_name, kind = part.split('.')
  session = context.torch()
  mesh = session.grid(device_ids(session, mesh_name))
  left_spec, right_spec, result_spec = _SUMS[kind]
  left = session.even_numbers() % 8
  right = session.even_numbers().T.contiguous() % 8
  lhs = annotated(session.to_device(left), mesh, left_spec)
  rhs = annotated(session.to_device(right), mesh, right_spec)
  with recorded() as programs:
    result = annotated(lhs @ rhs, mesh, result_spec)
  check_shards(result, left @ right, mesh, result_spec, 'the product')
  check_equal(result.cpu(), left @ right, 'as a whole')
  return _collectives(programs)


def _collectives(programs: Sequence) -> str:
  kinds = [
      f'{c.count} {c.kind}' for program in programs
      for c in program.collectives or ()
  ]
  return ', '.join(kinds) or 'no collective is told'


def _parts(kinds: Sequence[str]) -> tuple[str, ...]:
  return tuple(f'{mesh}.{kind}' for mesh in MESHES for kind in kinds)


_case = functools.partial(Case, devices=4, needs=Needs.TORCH_XLA)
CASES: tuple[Case, ...] = (
    _case('collectives.moves', 'tensors are mixed up on their way between '
          'devices', _move, _parts(tuple(_MOVES))),
    _case('collectives.sums', 'gradients and products are wrong', _sum,
          _parts(tuple(_SUMS))),
)
