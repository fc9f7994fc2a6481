"""The order of all passes over a program: HLO, from what torch_xla sends.

    as sent -> extracted -> V2 -> rewritten -> Shardy
               untuple      to_v2   unasked    padding
               extract              rewrites   to_sdy
                                    partial_sums

GSPMD gets the program in V2, Shardy one that is lowered on from there: more
than one, where padding takes several attempts.

A vendor whose compiler has rules of its own for some operations says so by a
method of its DevicePlugin, and gets these as torch_xla traces them:

    def rewrites(self) -> dict[str, bool]:
      return {'batch_norm': False}

docs/stablehlo.md has a table of the names. One that the method does not name is
applied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
import dataclasses
import enum
from typing import Any, Optional

from . import (batch_norm, dot_dims, extract, index_dims, padding, partial_sums,
               shard_groups, to_sdy, unasked, untuple)
from ..annotate.annotation import UserMesh
from ..compile.plan import NO_TILES, Tiles
from ..errors import DoorError
from ..hlo import dump, messages
from ..hlo.editor import instructions_of
from ..hlo.protos import HloModuleProto
from ..sdy.constraints import SdyProgram
from ..sdy.mesh_axes import InexpressibleError
from ..v2 import to_v2
from ..v2.to_v2 import ShardingCounts
from .extract import Annotations

# Equivalents of operations that shardings propagate through, in the order in
# which they are applied: the opcodes, and what rewrites them in a module, in
# place, and returns how many it did.
FOR_SHARDINGS: dict[str,
                    tuple[frozenset[str], Callable[[HloModuleProto], int]]] = {
                        'batch_norm': (batch_norm.OPCODES, batch_norm.expand),
                        'dot_dims': (dot_dims.OPCODES, dot_dims.unmerge),
                        'index_dims': (index_dims.OPCODES, index_dims.batch),
                    }
# Done elsewhere. Without them a program has no form that the plugin reads, or
# XLA's partitioner computes something else or ends the process.
ALWAYS = frozenset(
    ('composites', 'contractions', 'conversion', 'convolutions', 'manual',
     'padding', 'partial_sums', 'scatter_indices', 'untuple', 'windows'))


class Stage(enum.IntEnum):
  """The forms of a program, in the order in which it takes them."""
  SENT = 0
  EXTRACTED = 1
  V2 = 2
  REWRITTEN = 3
  SHARDY = 4


@dataclasses.dataclass(frozen=True)
class Settings:
  """The settings of the passes.

  Attributes:
    num_devices: that the program is for.
    meshes: those of the process, as for `constraints.decide`.
    disabled_rewrites: names in `FOR_SHARDINGS` of passes to skip.
    untuple: whether parameters that come as one tuple are taken one by one.
    names_of: the users' names of a binding's operands.
  """
  num_devices: int
  meshes: Iterable[UserMesh] = ()
  disabled_rewrites: Collection[str] = ()
  untuple: bool = True
  names_of: extract.NamesOf = lambda target: ()


@dataclasses.dataclass
class Program:
  """A program between two passes.

  Attributes:
    annotations: of the calls that were extracted.
    shardings: what became of its shardings in V2.
    note: what else was changed, for the record.
    is_changed: whether the program in V2 is another than that which came.
    num_devices: that it was lowered for.
    groups: of values that are to be split alike; they are no calls any more.
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
  groups: shard_groups.Groups = dataclasses.field(default_factory=dict)
  sdy_program: Optional[SdyProgram] = None
  padded: padding.Padded = dataclasses.field(default_factory=padding.Padded)

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
    is_changed, program.shardings, program.note = to_v2.emit_in_place(module)
    program.is_changed = is_changed or program.annotations.has_calls
  if start < Stage.REWRITTEN <= to:
    _rewrite(program, settings.disabled_rewrites)
  if to < Stage.SHARDY:
    return program
  annotations = program.annotations
  program.padded = padding.pad(module, annotations, settings.num_devices, tiles)
  dump.stage('padding', module)
  program.sdy_program = program.padded.with_original_shapes(
      to_sdy.lower_shardings(module, annotations, settings.num_devices,
                             settings.meshes,
                             annotations.names(settings.names_of)))
  shard_groups.restore_groups(module, program.groups)
  dump.stage('sdy', module)
  return program


def _rewrite(program: Program, disabled: Collection[str]) -> None:
  module = program.module
  if module.entry_computation_id not in {c.id for c in module.computations}:
    raise InexpressibleError('a program without an entry computation')
  annotations = program.annotations = program.annotations.without_unused()
  unasked.repeat(module, annotations)
  program.groups = shard_groups.extract_groups(module)
  opcodes = {i.opcode for i in instructions_of(module)}
  for name, (needs, rewrite) in FOR_SHARDINGS.items():
    if name not in disabled and not opcodes.isdisjoint(needs):
      rewrite(module)
      dump.stage(name, module)
  partial_sums.split(module, annotations)
  dump.stage('partial_sums', module)


def disabled_rewrites(plugin: Any) -> frozenset[str]:
  """The names of the rewrites that a plugin disables.

  Args:
    plugin: its DevicePlugin, which may have a method `rewrites`.
  """
  method = getattr(plugin, 'rewrites', None)
  if method is None:
    return frozenset()
  flags = method()
  who = type(plugin).__name__
  names = ', '.join(map(repr, FOR_SHARDINGS))
  if not isinstance(flags, Mapping) or not all(
      isinstance(is_applied, bool) for is_applied in flags.values()):
    raise DoorError(
        f'{who}.rewrites() gives {flags!r}; it must be a dict that says of some '
        f'of {names} whether they are applied, True or False')
  for name in flags:
    if name in ALWAYS:
      raise DoorError(
          f'{who}.rewrites() names {name!r}, which is always applied: without '
          'it results would be wrong, or a program not be compiled. It can '
          f'name {names}')
    if name not in FOR_SHARDINGS:
      raise DoorError(f'{who}.rewrites() names {name!r}; it can name {names}')
  return frozenset(name for name, is_applied in flags.items() if not is_applied)
