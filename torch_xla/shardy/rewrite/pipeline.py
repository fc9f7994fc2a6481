"""The order of all passes over a program: HLO, from what torch_xla sends.

    as sent -> extracted -> V2 -> Shardy
               untuple      to_v2   unasked .. to_sdy
               extract

GSPMD gets the program in V2, Shardy one that is lowered on from there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
import dataclasses
import enum
from typing import Optional

from . import (choice, extract, padding, partial_sums, shard_groups, to_sdy,
               unasked, untuple)
from ..annotate.annotation import UserMesh
from ..compile.plan import NO_TILES, Tiles
from ..hlo import dump, messages
from ..hlo.protos import HloModuleProto
from ..sdy.constraints import SdyProgram
from ..sdy.mesh_axes import InexpressibleError
from ..v2 import to_v2
from ..v2.to_v2 import ShardingCounts
from .extract import Annotations

_NOT_PADDED = padding.Padded({}, frozenset(), {}, {})


class Stage(enum.IntEnum):
  """The forms of a program, in the order in which it takes them."""
  SENT = 0
  EXTRACTED = 1
  V2 = 2
  SHARDY = 3


@dataclasses.dataclass(frozen=True)
class Settings:
  """The settings of the passes.

  Attributes:
    num_devices: that the program is for.
    meshes: those of the process, as for `constraints.decide`.
    disabled_rewrites: names in `choice.FOR_SHARDINGS` of passes to skip.
    rewrites: whether operations are rewritten, besides the shardings.
    untuple: whether parameters that come as one tuple are taken one by one.
  """
  num_devices: int
  meshes: Iterable[UserMesh] = ()
  disabled_rewrites: Collection[str] = ()
  rewrites: bool = True
  untuple: bool = True


@dataclasses.dataclass
class Program:
  """A program between two passes.

  Attributes:
    annotations: of the calls that were extracted.
    shardings: what became of its shardings in V2.
    note: what else was changed, for the record.
    is_changed: whether the program in V2 is another than that which came.
    num_devices: that it was lowered for.
    sdy_program: the program in Shardy's terms.
    padded: the tensors that were padded for Shardy.
  """
  module: HloModuleProto
  stage: Stage = Stage.SENT
  annotations: Annotations = dataclasses.field(default_factory=Annotations)
  shardings: ShardingCounts = ShardingCounts()
  note: str = ''
  is_changed: bool = False
  num_devices: int = 1
  sdy_program: Optional[SdyProgram] = None
  padded: padding.Padded = _NOT_PADDED

  @property
  def sdy(self) -> SdyProgram:
    assert self.sdy_program is not None, self.stage
    return self.sdy_program

  def copy(self) -> Program:
    module = messages.make(HloModuleProto)
    module.CopyFrom(self.module)
    annotations = dataclasses.replace(
        self.annotations,
        constraints=dict(self.annotations.constraints),
        repeated=dict(self.annotations.repeated))
    return dataclasses.replace(self, module=module, annotations=annotations)


def lower(program: Program,
          settings: Settings,
          to: Stage = Stage.SHARDY,
          tiles: Tiles = NO_TILES) -> Program:
  """Lowers a program in place, from the stage that it is in, and returns it.

  Args:
    tiles: as for `padding.pad`.

  Raises:
    InexpressibleError, SdyError: Shardy's terms do not say it all, or the
      parameters cannot be untupled; the program is of no use any more.
    ValueError: the program or its annotations are damaged.
  """
  module = program.module
  start, program.stage = program.stage, to
  program.num_devices = settings.num_devices
  if start < Stage.EXTRACTED:
    if settings.untuple:
      untuple.unwrap(module)
    program.annotations = extract.extract_annotations(module)
    dump.stage('extracted', module)
  if start < Stage.V2 <= to:
    is_changed, program.shardings, program.note = to_v2.emit_in_place(
        module, settings.rewrites)
    program.is_changed = is_changed or program.annotations.has_calls
  if to < Stage.SHARDY:
    return program
  if module.entry_computation_id not in {c.id for c in module.computations}:
    raise InexpressibleError('a program without an entry computation')
  annotations = program.annotations = program.annotations.without_unused()
  unasked.repeat(module, annotations)
  groups = shard_groups.extract_groups(module)
  if settings.rewrites:
    for name, rewrite in choice.chosen(module, settings.disabled_rewrites):
      rewrite(module)
      dump.stage(name, module)
    partial_sums.split(module, annotations)
    dump.stage('partial_sums', module)
    program.padded = padding.pad(module, annotations, settings.num_devices,
                                 tiles)
    dump.stage('padding', module)
  program.sdy_program = program.padded.with_original_shapes(
      to_sdy.lower_shardings(module, annotations, settings.num_devices,
                             settings.meshes))
  if settings.rewrites:
    shard_groups.restore_groups(module, groups)
  dump.stage('sdy', module)
  return program
