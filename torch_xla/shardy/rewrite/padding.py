"""Pads what is stored in tiles that do not divide it evenly: HLO, in place.

Shardy lays out parameters and results in equal tiles only. A tensor in
ceil-divided tiles has the bytes of one that is padded to a multiple of them,
and it is handed over as that:

    before   p = f32[10,6] parameter(0), sharding={devices=[8,1]<=[8]}
             c = f32[10,6] custom-call(..), target="Sharding", sharding=..
             ROOT r = (f32[10,6]) tuple(c)
    after    p = f32[16,6] parameter(0), sharding={devices=[8,1]<=[8]}
             s = f32[10,6] slice(p), slice={[0:10], [0:6]}
             q = f32[10,6] custom-call(s), target="Sharding", sharding=..
             e = f32[16,6] pad(c, 0), padding=0_6x0_0, sharding=..
             ROOT r = (f32[16,6]) tuple(e)

The values in the padding are never used: the slice leaves them out.

Shardy splits a result that nobody placed no further than its dimensions divide,
so that a gradient of a weight stored in uneven tiles would be gathered. Padded
it stays split; but torch_xla, which does not know of the padding, then has to
find the tiles that it expects:

    f32[10] padded to 16, in 8 tiles of 2: the tiles of f32[10] in 8
    f32[10] padded to 16, in 2 tiles of 8: not those of f32[10] in 2, of 5

Which they are is for propagation to decide: a probe finds them first, and the
padded program's layouts are compared with its result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import contextlib
import dataclasses
from typing import Optional

from . import extract
from ..annotate.annotation import Annotation
from ..compile.attempt import Dims
from ..compile.plan import Tiles
from ..hlo import array_shape, op_sharding
from ..hlo.array_shape import ArrayShape
from ..hlo.editor import (dims_of, Editor, entry_of, insert, replace_results,
                          results_of, set_program_shape)
from ..hlo.protos import (HloComputationProto, HloInstructionProto,
                          HloModuleProto)
from ..sdy.constraints import SdyProgram
from ..sharding.hlo_sharding import HloSharding
from ..sharding.tile_assignment import ShardingError


@dataclasses.dataclass
class Padded:
  """The padded tensors of a program.

  Attributes:
    parameters: the shapes that users know, by parameter number.
    constraints: the names of the instructions that constrain a slice as its
      parameter.
    unplaced_results: the dimensions of results that nobody placed and that may
      be split unevenly, by number.
    padded_unplaced: the dimensions of those that were padded, before and after.
  """
  parameters: dict[int, ArrayShape] = dataclasses.field(default_factory=dict)
  constraints: set[str] = dataclasses.field(default_factory=set)
  unplaced_results: dict[int, Dims] = dataclasses.field(default_factory=dict)
  padded_unplaced: dict[int,
                        tuple[Dims,
                              Dims]] = dataclasses.field(default_factory=dict)

  def with_original_shapes(self, program: SdyProgram) -> SdyProgram:
    """Restores the shapes and tensors that users know."""
    if not self.parameters and not self.constraints:
      return program
    tensors = tuple(
        dataclasses.replace(t, shape=self.parameters[t.parameter]) if t.
        parameter in self.parameters else t
        for t in program.tensors
        if t.instruction not in self.constraints)
    return dataclasses.replace(program, tensors=tensors)


def padded_dims(dims: Sequence[int],
                placement: HloSharding) -> Optional[tuple[int, ...]]:
  """The dimensions of the tensor that divides evenly; None if it does."""
  if (placement.tiles is None or placement.rank != len(dims) or
      min(dims, default=0) < 0):  # Of a dimension without a bound.
    return None
  padded = tuple(size * tiles for size, tiles in zip(
      placement.tile_shape(dims), placement.tiles.dims, strict=False))
  return None if padded == tuple(dims) else padded


def may_be_uneven(dims: Dims, num_devices: int) -> bool:
  """Tests whether a result may be split unevenly."""
  return any(size > 1 and size % num_devices for size in dims)


def padded_to_tiles(dims: Dims, tiles: Dims) -> Optional[Dims]:
  """The dimensions padded to whole tiles; None if `dims` needs no padding."""
  to = tuple(count * -(-size // count)
             for size, count in zip(dims, tiles, strict=True))
  return None if to == dims else to


def _leaves_open(annotation: Optional[Annotation],
                 placement: HloSharding) -> bool:
  """Tests whether a dimension is open, and so not promised."""
  return (annotation is not None and annotation.sharding == placement and
          any(annotation.open_dims))


def pad(module: HloModuleProto, annotations: extract.Annotations,
        num_devices: int, tiles: Tiles) -> Padded:
  """Pads an HloModuleProto message and adds to `annotations`, both in place.

  Args:
    tiles: of results that nobody placed, by number.
  """
  entry = entry_of(module)
  placements = _placements(entry)
  if not any(_padded_dims(*placed) for placed in placements.values()):
    return Padded()
  padder = _Padder(module, entry, annotations, placements)
  padder.pad_results(num_devices, tiles)
  padder.pad_parameters()
  set_program_shape(module)
  return padder.padded


def _placements(
    computation: HloComputationProto
) -> dict[int, tuple[HloInstructionProto, HloSharding]]:
  """The instructions with a sharding that is understood, and it, by id."""
  placements = {}
  for instruction in computation.instructions:
    if instruction.HasField('sharding'):
      # `to_sdy` says what is wrong with others.
      with contextlib.suppress(ShardingError):
        placements[instruction.id] = instruction, op_sharding.from_bytes(
            instruction.sharding)
  return placements


def _padded_dims(instruction: HloInstructionProto,
                 placement: HloSharding) -> Optional[tuple[int, ...]]:
  if array_shape.is_tuple(instruction.shape):
    return None
  return padded_dims(dims_of(instruction), placement)


class _Padder:
  """Pads the entry computation of one module."""

  def __init__(self, module: HloModuleProto, entry: HloComputationProto,
               annotations: extract.Annotations,
               placements: Mapping[int, tuple[HloInstructionProto,
                                              HloSharding]]):
    self._editor = Editor(module)
    self._entry = entry
    self._annotations = annotations
    self._placements = placements
    self.padded = Padded()

  def pad_parameters(self) -> None:
    after, replaced = {}, {}
    for parameter in self._entry.instructions:
      if parameter.opcode != 'parameter' or parameter.id not in self._placements:
        continue
      _, placement = self._placements[parameter.id]
      dims = _padded_dims(parameter, placement)
      if dims is None:
        continue
      number, shape = parameter.parameter_number, parameter.shape
      before, = array_shape.arrays_of(shape)
      self.padded.parameters[number] = before
      parameter.shape = array_shape.with_dims(shape, dims)
      cut = self._editor.cut(self._entry, parameter, before.dims)
      call = self._sharding_call(shape, cut.id, parameter.sharding)
      if (annotation := self._annotations.parameters.get(number)) is not None:
        self._annotations.constraints[self._entry.id, call.id] = annotation
      after[parameter.id], replaced[parameter.id] = (cut, call), call.id
    if after:
      insert(self._entry, after, replaced)

  def pad_results(self, num_devices: int, tiles: Tiles) -> None:
    padded_results = {}
    for place, result in enumerate(results_of(self._entry)):
      dims = None
      _, placement = self._placements.get(result.id, (None, None))
      if placement is not None and not _leaves_open(
          self._annotations.constraints.get(
              (self._entry.id, result.id)), placement):
        dims = _padded_dims(result, placement)
      elif not array_shape.is_tuple(result.shape) and may_be_uneven(
          before := dims_of(result), num_devices):
        self.padded.unplaced_results[place] = before
        if place in tiles:
          dims = padded_to_tiles(before, tiles[place])
      if dims is not None:
        padded_results[place] = self._editor.padded(self._entry, result, dims)
        if place in self.padded.unplaced_results:
          self.padded.padded_unplaced[place] = before, dims
        else:
          padded_results[place][-1].sharding = result.sharding
    if padded_results:
      replace_results(self._entry, padded_results)

  def _sharding_call(self, shape: bytes, operand: int,
                     sharding: bytes) -> HloInstructionProto:
    """One that records do not show: no user marked what it is of."""
    call = self._editor.call(
        self._entry,
        extract.SHARDING_TARGET,
        shape, [operand],
        sharding=sharding)
    self.padded.constraints.add(call.name)
    return call
