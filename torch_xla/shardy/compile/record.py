"""The record of a program, as a value and as a table for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import dataclasses
import re
from typing import Optional

from ..door.memory import Memory
from ..hlo.array_shape import ArrayShape
from ..hlo.compile_options import CompileOptions, Partitioner
from ..hlo.compiled_program import Collective, CompiledProgram
from ..sharding.hlo_sharding import HloSharding, REPLICATED
from ..v2.to_v2 import ShardingCounts

_HEADER = ('tensor', 'shape', 'asked for', 'priority', 'told Shardy',
           'on a device')
_SDY_SHARDING = re.compile(r'\[[^\[\]]*\](, unreduced=\{[^}]*\})?(?=>)')


@dataclasses.dataclass(frozen=True)
class TensorRecord:
  """A parameter, or an intermediate tensor with a sharding of its own.

  Attributes:
    parameter: its number, or None for an intermediate.
    instruction: the name of its instruction in the program.
    shape: element type and global dimensions.
    spec: the partition spec that a user asked for; None without one.
    priority: the user's, for each dimension; None without any.
    sdy: the attribute that Shardy was handed; empty if it was handed none.
    layout: the sharding that it is stored with, or constrained to.
    source: name and opcode of the instruction whose result it is.
    compiled: a parameter's sharding in the compiled program. None where the
      backend does not tell, and for intermediates: no compiled program says it.
    local_shape: what one device holds of a parameter, or computes of an
      intermediate, in the compiled program; None where that cannot be found.
    name: the user's name for it, where one is known.
  """
  parameter: Optional[int]
  instruction: str
  shape: ArrayShape
  spec: Optional[str]
  priority: Optional[tuple[Optional[int], ...]]
  sdy: str
  layout: HloSharding
  source: tuple[str, str]
  compiled: Optional[str] = None
  local_shape: Optional[ArrayShape] = None
  name: str = ''

  @property
  def placement(self) -> str:
    """The layout as XLA prints it."""
    return str(self.layout)


def with_compiled(
    tensors: tuple[TensorRecord, ...],
    compiled: Optional[CompiledProgram]) -> tuple[TensorRecord, ...]:
  """Adds the compiled program's shardings and shapes to the tensors."""
  if compiled is None:
    return tensors
  shardings = compiled.parameters or ()

  def complete(tensor: TensorRecord) -> TensorRecord:
    if tensor.parameter is None:
      return dataclasses.replace(
          tensor, local_shape=compiled.local_shapes.get(tensor.source))
    if tensor.parameter >= len(shardings):
      return tensor
    sharding = shardings[tensor.parameter]
    local = dataclasses.replace(
        tensor.shape, dims=sharding.tile_shape(tensor.shape.dims))
    return dataclasses.replace(
        tensor, compiled=str(sharding), local_shape=local)

  return tuple(map(complete, tensors))


@dataclasses.dataclass(frozen=True)
class AttemptRecord:
  """An attempt at a program whose outcome was not used.

  Attributes:
    partitioner: who was to split it.
    seconds: what it took.
    reason: why another one was made.
  """
  partitioner: Partitioner
  seconds: float
  reason: str

  def __str__(self) -> str:
    return f'{self.partitioner.value}, {self.seconds:.2f} s: {self.reason}'


@dataclasses.dataclass(frozen=True)
class ProgramRecord:
  """One program on its way through the door.

  Attributes:
    name: the module's name; empty where the format does not say (StableHLO).
    format: 'hlo' or 'mlir', as handed on.
    options: how the program was spread out, as handed on.
    seconds: what the backend took to compile it, or to load it from
      `torch_xla.shardy.cache`, in all attempts.
    shardings: how many went to the backend in V2 and in V1, and why.
    tensors: what Shardy was told of its tensors; empty where GSPMD was asked.
    collectives: in the compiled program, by kind; None where the backend does
      not tell.
    memory: what it takes on a device; None where the backend does not tell.
    lost: the users' names, else shapes, of annotated tensors whose annotation
      does not count in it.
    note: why the program was handed on other than asked; empty if it was not.
    given_up: the attempts before the last, in order; mostly none.
    error: the backend's message if it refused the program, or why its result
      cannot be used; else None.
    reused: how often the runtime got the same executable again instead of a
      compile, as at each read of a sharded tensor but the first.
    form: how a program in StableHLO says its shardings: 'sdy', 'attributes',
      'mhlo.sharding' or 'plain'; empty for HLO.
    packed: the program as the runtime sent it, by zlib, of the last programs
      only.
    sent: the program as the runtime sent it; None outside `record()`.
    handed_on: the program as the backend got it; None outside `record()`.
    options_sent: serialised CompileOptionsProto; None outside `record()`.
    options_handed_on: likewise.
    arguments: the users' names of arguments, by number, where a tool runs.
  """
  name: str
  format: str
  options: CompileOptions
  seconds: float
  shardings: ShardingCounts = ShardingCounts()
  tensors: tuple[TensorRecord, ...] = ()
  collectives: Optional[tuple[Collective, ...]] = None
  memory: Optional[Memory] = None
  lost: tuple[str, ...] = ()
  note: str = ''
  given_up: tuple[AttemptRecord, ...] = ()
  error: Optional[str] = None
  form: str = ''
  reused: int = 0
  packed: Optional[bytes] = dataclasses.field(
      default=None, repr=False, compare=False)
  sent: Optional[bytes] = dataclasses.field(default=None, repr=False)
  handed_on: Optional[bytes] = dataclasses.field(default=None, repr=False)
  options_sent: Optional[bytes] = dataclasses.field(default=None, repr=False)
  options_handed_on: Optional[bytes] = dataclasses.field(
      default=None, repr=False)
  arguments: Mapping[int, str] = dataclasses.field(default_factory=dict)

  def __str__(self) -> str:
    return table(self)

  @property
  def partitioner(self) -> Partitioner:
    return self.options.partitioner

  def without_programs(self) -> ProgramRecord:
    return dataclasses.replace(
        self,
        sent=None,
        handed_on=None,
        options_sent=None,
        options_handed_on=None)


def table(record: ProgramRecord) -> str:
  """The record in lines: how it was compiled, its tensors, its collectives.

  Tensors that nobody annotated and that every device holds whole are counted,
  not listed.
  """
  lines = [summary(record)]
  listed = [t for t in record.tensors if t.spec or not is_replicated(t)]
  rows = [_row(tensor) for tensor in listed]
  if rows:
    lines += [f'  {line}' for line in columns([_HEADER, *rows])]
  rest = len(record.tensors) - len(listed)
  if rest:
    lines.append(f'  and {rest} held whole on every device')
  lines.append(f'  collectives: {collectives(record.collectives)}')
  lines += [f'  attempt before: {attempt}' for attempt in record.given_up]
  if record.lost:
    lines.append(f'  {lost_text(record.lost)}')
  if record.note:
    lines.append(f'  note: {record.note}')
  if record.error:
    lines.append(f'  error: {record.error}')
  return '\n'.join(lines)


def summary(record: ProgramRecord) -> str:
  """One line: name, partitioner, partitions, shardings, seconds."""
  return (f'{record.name or "(StableHLO)"}  {record.partitioner.value}  '
          f'{record.options.num_partitions} partitions  '
          f'shardings: {record.shardings.v2} V2 {record.shardings.v1} V1  '
          f'compiled in {record.seconds:.2f} s' +
          (f', used again {record.reused} time(s)' if record.reused else ''))


def collectives(each_kind: Optional[Sequence[Collective]]) -> str:
  """The collectives by kind: '2 all-reduce (1,024 bytes)'."""
  if each_kind is None:
    return 'the backend does not tell'
  return ', '.join(
      f'{c.count} {c.kind} ({c.nbytes:,} bytes)' for c in each_kind) or 'none'


def lost_text(names: Sequence[str]) -> str:
  """That annotations do not count in a program, and whose."""
  return f'{len(names)} without their annotation: {", ".join(names)}'


def is_replicated(tensor: TensorRecord) -> bool:
  return tensor.layout == REPLICATED


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
  """Rows as lines of aligned columns."""
  widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
  return [
      '  '.join(
          cell.ljust(width)
          for cell, width in zip(row, widths, strict=True)).rstrip()
      for row in rows
  ]


def _row(tensor: TensorRecord) -> tuple[str, ...]:
  position = (
      tensor.instruction
      if tensor.parameter is None else f'parameter {tensor.parameter}')
  sharding = _SDY_SHARDING.search(tensor.sdy)
  return (tensor.name or position, str(tensor.shape), tensor.spec or
          '-', '-' if tensor.priority is None else str(tensor.priority),
          sharding.group() if sharding else '-',
          '-' if tensor.local_shape is None else str(tensor.local_shape))
