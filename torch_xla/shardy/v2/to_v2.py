"""Lowers a program's shardings from V1 to V2: HloModuleProto to HloModuleProto.

`_XLAC` writes device lists (V1), `devices=[4,2]0,4,1,5,2,6,3,7`. Here each
becomes an iota, `devices=[4,2]<=[2,4]T(1,0)`, as XLA prints it. A sharding that
has no such form, contradicts its shape or is damaged goes on as it came, and
the counts say why: what to make of it stays the compiler's decision.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
import dataclasses
import functools
from typing import NamedTuple, Optional

from . import contractions, convolutions, scatter_indices, windows
from ..hlo import array_shape, dump, op_sharding
from ..hlo.editor import instructions_of
from ..hlo.protos import HloModuleProto
from ..sharding.hlo_sharding import ShardingType
from ..sharding.tile_assignment import ShardingError


@dataclasses.dataclass(frozen=True)
class ShardingCounts:
  """Counts of a program's shardings; each leaf of a tuple counts as one.

  Attributes:
    v2: how many go to the compiler without a list of devices where they had
      one, or as an iota.
    unconverted: (reason, count), sorted: those that stay in V1.
  """
  v2: int = 0
  unconverted: tuple[tuple[str, int], ...] = ()

  @property
  def v1(self) -> int:
    """The number of shardings that go to the compiler in V1."""
    return sum(count for _, count in self.unconverted)


class _Result(NamedTuple):
  """A sharding as it is to be handed on, and what there is to report."""
  data: bytes
  v2: int = 0
  reasons: tuple[str, ...] = ()


# Lowers a leaf, for arrays of a rank; None: of any.
_Leaf = Callable[[bytes, Optional[int]], _Result]


def _lower_sharding(leaf: _Leaf, data: bytes,
                    shape: Optional[bytes]) -> _Result:
  ranks = None if shape is None else tuple(
      len(array.dims) for array in array_shape.arrays_of(shape))
  try:
    message = op_sharding.parse(data)
    if message.type != ShardingType.TUPLE:
      # On a tuple it holds for each leaf (XLA's NormalizeTupleSharding).
      if ranks is None:
        return leaf(data, None)
      results = [leaf(data, rank) for rank in set(ranks or (0,))]
      return next((r for r in results if r.reasons), results[0])
    leaves = message.tuple_shardings
    # An empty tuple has a sharding all the same.
    if ranks is not None and len(leaves) != max(len(ranks), 1):
      raise op_sharding.ShapeMismatchError(
          f'a tuple sharding of {len(leaves)} elements on a shape of '
          f'{len(ranks)}')
  except ShardingError as e:
    return _Result(data, reasons=(str(e),))
  results = [
      leaf(element, ranks[i] if ranks else None)
      for i, element in enumerate(leaves)
  ]
  message.tuple_shardings[:] = [result.data for result in results]
  return _Result(
      message.SerializeToString(), sum(result.v2 for result in results),
      tuple(reason for result in results for reason in result.reasons))


def _lower_leaf(data: bytes, rank: Optional[int]) -> _Result:
  try:
    message = op_sharding.parse(data)
    sharding = op_sharding.read(message)
    if message.type != ShardingType.OTHER:
      return _Result(data)
    if rank is not None:
      op_sharding.check_rank(sharding, rank)
  except ShardingError as e:
    return _Result(data, reasons=(str(e),))
  if reason := sharding.v1_reason:
    return _Result(data, reasons=(reason,))
  op_sharding.write(sharding.canonical(), message)
  return _Result(message.SerializeToString(), 1)


def _free_loops(module: HloModuleProto) -> int:
  """Takes their shardings off the tuples that loops carry, in place.

  torch_xla writes others for a loop's condition, which uses less of the tuple,
  than for its body, and XLA refuses both. What is in a manual region stays.
  """
  in_loops = {
      computation for i in instructions_of(module) if i.opcode == 'while'
      for computation in i.called_computation_ids
  }
  carried = [
      i for c in module.computations if c.id in in_loops for i in c.instructions
      if i.opcode == 'parameter' and i.HasField('sharding') and not any(
          sharding and sharding.type is ShardingType.MANUAL
          for sharding in op_sharding.elements(i.sharding))
  ]
  for parameter in carried:
    parameter.ClearField('sharding')
  return len(carried)


def make_partitionable(module: HloModuleProto) -> tuple[bool, str]:
  """Rewrites what XLA cannot partition in an HloModuleProto, in place.

  Returns:
    Whether it changed, and what of that a record says.
  """
  changed = 0
  for name, rewrite in (('scatter_indices', scatter_indices.narrow),
                        ('single_indices', scatter_indices.pair_single),
                        ('whole_scatters', scatter_indices.keep_whole),
                        ('windows', windows.part), ('whole_windows',
                                                    windows.hold_overlapping),
                        ('loops', _free_loops), ('dilations',
                                                 convolutions.undilate)):
    changed += rewrite(module)
    dump.stage(name, module)
  unordered = contractions.devices_out_of_order(module)
  notes = [convolutions.make_partitionable(module, unordered)]
  dump.stage('convolutions', module)
  if unordered:
    notes.append(contractions.make_partitionable(module, unordered))
    dump.stage('contractions', module)
  note = '; '.join(filter(None, notes))
  return bool(changed or note), note


def emit_in_place(module: HloModuleProto) -> tuple[bool, ShardingCounts, str]:
  """Lowers an HloModuleProto message, in place and in time linear in its size.

  Returns:
    Whether it changed, what became of its shardings, and what else changed, for
    the record.

  Raises:
    ValueError: the shape of an instruction with a sharding is damaged. A damaged
      sharding is no error.
  """
  # Each different sharding is looked at once.
  lower = functools.cache(
      functools.partial(_lower_sharding, functools.cache(_lower_leaf)))
  uses: collections.Counter[tuple[bytes, Optional[bytes]]] = (
      collections.Counter())

  def rewrite(data: bytes, shape: Optional[bytes]) -> bytes:
    uses[data, shape] += 1
    result = lower(data, shape)
    # The bytes in hand, which the caller knows again, unless they are to go.
    return data if result.data == data else result.data

  changed = op_sharding.rewrite_module(module, rewrite)
  dump.stage('v2', module)
  is_new, note = make_partitionable(module)
  v2, reasons = 0, collections.Counter[str]()
  for key, count in uses.items():
    result = lower(*key)
    v2 += count * result.v2
    for reason in result.reasons:
      reasons[reason] += count
  counts = ShardingCounts(v2, tuple(sorted(reasons.items())))
  return bool(changed or is_new), counts, note
