"""The boundaries of manual regions in HLO: where tensors split or join."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Union

from ..hlo import array_shape
from ..hlo.protos import HloInstructionProto
from ..sdy import manual
from ..sdy.constraints import Site
from ..sdy.manual import BEGIN_TARGET
from .extract import InstructionKey
from .manual_regions import is_array, ManualComputation, placement


class RegionBoundary(NamedTuple):
  """A place where a tensor is split for a region, or joined after it.

  Attributes:
    instruction: the id of the tensor that is split, or of the call that ends
      the region.
  """
  computation: int
  instruction: int
  is_begin: bool


# Where something is said of a sharding.
SiteKey = Union[InstructionKey, RegionBoundary]


def sites(
    computations: Mapping[int,
                          ManualComputation]) -> dict[RegionBoundary, Site]:
  """The places where regions say how tensors are split.

  Raises:
    InexpressibleError: what is split has no sharding, or is no array.
    ManualShardingError: a local shape that the sharding does not give.
  """
  sites_by_boundary = {}
  for computation in computations.values():
    number, by_id = computation.number, computation.by_id
    for region in computation.cut.all_regions:
      for m in computation.members_of(region):
        if m.custom_call_target == BEGIN_TARGET:
          source = by_id[m.operand_ids[0]]
          sites_by_boundary[RegionBoundary(number, source.id,
                                           True)] = _site(m, source, source, m)
      for end in computation.ends_of(region):
        local = by_id[end.operand_ids[0]]
        sites_by_boundary[RegionBoundary(number, end.id,
                                         False)] = _site(end, end, end, local)
  return sites_by_boundary


def _site(call: HloInstructionProto, marked: HloInstructionProto,
          whole: HloInstructionProto, local: HloInstructionProto) -> Site:
  for instruction in whole, local:
    if not is_array(instruction.shape) or array_shape.is_dynamic(
        instruction.shape):
      raise manual.unsupported(
          call.name, f'{instruction.name} is no array of known dimensions')
  sharding = placement(marked)
  if sharding is None:
    raise manual.unsupported(call.name,
                             f'{marked.name} has no sharding; mark it first')
  (full,), (tile,) = map(array_shape.arrays_of, (whole.shape, local.shape))
  return manual.boundary(sharding, full, tile, call.name)
