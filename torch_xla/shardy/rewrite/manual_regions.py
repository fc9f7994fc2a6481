"""Finds the manual regions of a program in HLO.

`xs.enable_manual_sharding` begins a region and `disable_manual_sharding` ends
it; in between each device computes on values of its own:

    b = f32[4,8] custom-call(a), target="SPMDFullToShardShape", sharding={manual}
    m = f32[4,8] tanh(b)
    k = f32[4,8] custom-call(m), target="Sharding", sharding={manual}
    e = f32[8,8] custom-call(k), target="SPMDShardToFullShape",
        sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}

That is the region {b, m, k}. A manual value may also be a parameter or a result
of the program: a tensor under the sharding {manual}.
"""

from __future__ import annotations

from collections.abc import Iterator
import dataclasses
from typing import Optional

from . import extract
from ..hlo import array_shape, op_sharding
from ..hlo.protos import (HloComputationProto, HloInstructionProto,
                          HloModuleProto)
from ..sdy import manual_graph
from ..sdy.manual import (BEGIN_TARGET, END_TARGET, MANUAL_TARGETS,
                          marked_error, unsupported)
from ..sdy.manual_graph import Cut, Node, Region, Role
from ..sdy.mesh_axes import InexpressibleError
from ..sharding.hlo_sharding import HloSharding, ShardingType
from ..sharding.tile_assignment import ShardingError

# Opaque values and tokens.
_NO_ARRAYS = ('type14', 'type17')


@dataclasses.dataclass(frozen=True)
class ManualComputation:
  """A computation with manual values.

  Attributes:
    by_id: its instructions.
    cut: its regions, of ids.
    parameters: ids of parameters that are manual; in the entry alone.
  """
  computation: HloComputationProto
  by_id: dict[int, HloInstructionProto]
  cut: Cut[int]
  parameters: frozenset[int]

  @property
  def number(self) -> int:
    """The computation's id."""
    return self.computation.id

  def carries_sharding(self, instruction: HloInstructionProto) -> bool:
    """Tests whether a region carries an instruction's sharding."""
    return (instruction.id in self.cut.manual or
            instruction.custom_call_target == END_TARGET)

  def members_of(self, region: Region[int]) -> Iterator[HloInstructionProto]:
    return (self.by_id[m] for m in region.members)

  def ends_of(self, region: Region[int]) -> Iterator[HloInstructionProto]:
    return (self.by_id[e] for e in region.ends)


def placement(instruction: HloInstructionProto) -> Optional[HloSharding]:
  """An instruction's own sharding."""
  if not instruction.HasField('sharding'):
    return None
  try:
    return op_sharding.from_bytes(instruction.sharding)
  except ShardingError as e:
    raise InexpressibleError(f'a sharding that is not understood: {e}') from e


def is_sharding_call(instruction: HloInstructionProto) -> bool:
  return instruction.custom_call_target == extract.SHARDING_TARGET


def is_array(shape: bytes) -> bool:
  return not array_shape.is_tuple(shape) and array_shape.arrays_of(
      shape)[0].dtype not in _NO_ARRAYS


def find(module: HloModuleProto) -> dict[int, ManualComputation]:
  """The computations with manual values, by id.

  Raises:
    InexpressibleError, ManualShardingError: regions that Shardy, or nobody, can
      have.
  """
  manual = {
      computation.id
      for computation in module.computations
      if any(map(_is_of_regions, computation.instructions))
  }
  computations = {}
  marked: set[int] = set()  # Computations that say something of shardings.
  for computation in module.computations if manual else ():
    if any(
        i.custom_call_target in MANUAL_TARGETS or i.HasField('sharding') or
        not marked.isdisjoint(i.called_computation_ids)
        for i in computation.instructions):
      marked.add(computation.id)
    if computation.id in manual:
      is_entry = computation.id == module.entry_computation_id
      computations[computation.id] = _find(computation, is_entry, marked)
  return computations


def _is_of_regions(i: HloInstructionProto) -> bool:
  return i.custom_call_target in MANUAL_TARGETS or _is_manual(i)


def _is_manual(instruction: HloInstructionProto) -> bool:
  sharding = placement(instruction)
  return sharding is not None and sharding.type == ShardingType.MANUAL


def _find(computation: HloComputationProto, is_entry: bool,
          marked: set[int]) -> ManualComputation:
  root = computation.root_id
  by_id = {i.id: i for i in computation.instructions}
  nodes = [
      Node(i.id, (*i.operand_ids, *i.control_predecessor_ids),
           _role(i, is_entry and i.id == root), i.name)
      for i in computation.instructions
  ]
  cut = manual_graph.cut(nodes)
  parameters = frozenset(n.key for n in nodes if n.role is Role.GIVEN)
  manual_computation = ManualComputation(computation, by_id, cut, parameters)
  for region in cut.all_regions:
    for m in manual_computation.members_of(region):
      _check_member(m, manual_computation, marked)
    if root in region.members:
      region.left[root] = None
    for left in region.left:
      if not is_array(by_id[left].shape):
        raise unsupported(
            by_id[left].name, 'a manual value that is no array and is used in '
            'another region, or is a result')
  for i in computation.instructions:
    if (i.custom_call_target == END_TARGET and
        i.operand_ids[0] not in cut.manual):
      raise unsupported(i.name, 'it ends a region that nothing began')
  if not is_entry and (root in cut.manual or parameters):
    raise unsupported(
        by_id[root].name, 'a manual value that enters or leaves a loop or '
        'function; call disable_manual_sharding before it does')
  return manual_computation


def _role(i: HloInstructionProto, is_root: bool) -> Role:
  if i.custom_call_target == BEGIN_TARGET:
    return Role.BEGIN
  if i.custom_call_target == END_TARGET:
    return Role.END
  if is_root and i.opcode == 'tuple':
    return Role.RESULTS
  if _is_manual(i):
    return Role.GIVEN if i.opcode == 'parameter' else Role.MANUAL
  return Role.PLAIN


def _check_member(i: HloInstructionProto, manual_computation: ManualComputation,
                  marked: set[int]) -> None:
  uses = [o for o in i.operand_ids if o in manual_computation.cut.manual]
  sharding = placement(i)
  if sharding is not None and sharding.type != ShardingType.MANUAL:
    raise marked_error(i.name, sharding, manual_computation.by_id[uses[0]].name)
  if i.control_predecessor_ids:
    raise unsupported(i.name, 'control dependencies')
  if not marked.isdisjoint(i.called_computation_ids):
    raise unsupported(
        i.name, 'a loop or function in it that marks tensors, or begins or '
        'ends another')
  for o in i.operand_ids:
    outside = manual_computation.by_id[o]
    if o not in manual_computation.cut.manual and not is_array(outside.shape):
      raise unsupported(i.name,
                        f'{outside.name}, which is no array and not manual')
