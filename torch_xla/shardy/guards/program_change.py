"""The differences of two programs that were sent to be compiled."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
import functools
from typing import Any, NamedTuple, Optional
import zlib

import numpy as np

from ..compile.ledger import IncomingProgram
from ..compile.record import TensorRecord
from ..hlo import array_shape, messages, op_sharding
from ..hlo.protos import HloInstructionProto, HloModuleProto, LiteralProto

_VALUES = ('preds', 's32s', 's64s', 'u32s', 'u64s', 'f32s', 'f64s')
_MOST_VALUES = 4
_MOST_LINES = 8
# What is told of by itself.
_APART = ('parameter', 'constant', 'tuple', 'get-tuple-element')


class Argument(NamedTuple):
  """An argument, or a constraint, as a program says it."""
  shape: str
  sharding: str
  priority: str
  name: str = ''


class _Facts(NamedTuple):
  arguments: tuple[Argument, ...]
  constraints: collections.Counter[str]
  constants: collections.Counter[str]
  operations: collections.Counter[str]
  results: str


def nearest(
    program: IncomingProgram, earlier: Sequence[IncomingProgram]
) -> Optional[tuple[IncomingProgram, list[str]]]:
  """The earlier program that differs least, the latest of several.

  Returns:
    It, and what differs; None without any before.

  Raises:
    ValueError: a program is damaged.
  """
  if not earlier:
    return None
  facts = _facts(program)
  best, changes = min(
      ((other, [*_changes(_facts(other), facts)]) for other in earlier[::-1]),
      key=lambda compared: len(compared[1]))
  if len(changes) > _MOST_LINES:
    changes[_MOST_LINES:] = [
        f'and {len(changes) - _MOST_LINES} differences more'
    ]
  return best, changes or [
      'the same arguments, constants and numbers of operations: operations in '
      'another order, or with other attributes'
  ]


def _changes(before: _Facts, after: _Facts) -> Iterator[str]:
  if len(before.arguments) == len(after.arguments):
    for number, was, now in _paired(before.arguments, after.arguments):
      argument = f'argument {number}' + (f' ({now.name})' if now.name else '')
      for field, old, new in zip(Argument._fields[:3], was, now):
        if old != new:
          yield f'{argument}: {field} {old} -> {new}'
  else:
    yield f'{len(before.arguments)} arguments -> {len(after.arguments)}'
    yield from _counted(
        collections.Counter(map(_shown, before.arguments)),
        collections.Counter(map(_shown, after.arguments)), 'arguments')
  yield from _counted(before.constraints, after.constraints, 'constraints')
  gone, new = (sorted((one - other).elements())
               for one, other in ((before.constants, after.constants),
                                  (after.constants, before.constants)))
  if len(gone) == len(new):
    pairs = collections.Counter(zip(gone, new, strict=True))
    for (was, now), count in pairs.items():
      yield f'constant {was} -> {now}' + f' ({count} times)' * (count > 1)
  else:
    yield from _counted(before.constants, after.constants, 'constants')
  yield from _counted(before.operations, after.operations, 'operations')
  if before.results != after.results:
    yield f'results {before.results} -> {after.results}'


def _paired(
    before: Sequence[Argument],
    after: Sequence[Argument]) -> Iterator[tuple[int, Argument, Argument]]:
  """Each argument that the other program lacks: (number now, before, now).

  By what they are: one that is used earlier moves all others.
  """
  same = collections.Counter(before) & collections.Counter(after)
  kept = same.copy()
  gone = []
  for argument in before:
    if kept[argument]:
      kept[argument] -= 1
    else:
      gone.append(argument)
  for number, argument in enumerate(after):
    if same[argument]:
      same[argument] -= 1
    else:
      yield number, gone.pop(0), argument


def _counted(before: collections.Counter[str], after: collections.Counter[str],
             what: str) -> Iterator[str]:
  for word, some in (('more', after - before), ('less', before - after)):
    for one, count in sorted(some.items()):
      yield f'{what}: {count} {word} {one}'


def _shown(argument: Argument) -> str:
  words = [argument.shape]
  if argument.sharding != 'none':
    words.append(argument.sharding)
  if argument.priority != 'none':
    words.append(f'priority {argument.priority}')
  return ' '.join(words)


@functools.lru_cache(maxsize=128)
def _facts(sent: IncomingProgram) -> _Facts:
  parameter_records = [t for t in sent.tensors if t.parameter is not None]
  constraints = collections.Counter(
      _shown(_of_record(t)) for t in sent.tensors if t.parameter is None)
  constants: collections.Counter[str] = collections.Counter()
  operations: collections.Counter[str] = collections.Counter()
  parameters: list[Any] = []
  results = ''
  if sent.format == 'hlo':
    module = messages.parse(HloModuleProto, sent.program)
    for computation in module.computations:
      is_entry = computation.id == module.entry_computation_id
      for instruction in computation.instructions:
        if instruction.opcode == 'constant':
          constants[_value(instruction.literal)] += 1
        elif instruction.opcode not in _APART:
          operations[instruction.opcode] += 1
        elif instruction.opcode == 'parameter' and is_entry:
          parameters.append(instruction)
        if is_entry and instruction.id == computation.root_id:
          results = ', '.join(
              map(str, array_shape.arrays_of(instruction.shape)))
  arguments = [
      _of_record(t)
      for t in sorted(parameter_records, key=lambda t: t.parameter or 0)
  ] or [
      argument
      for instruction in sorted(parameters, key=lambda p: p.parameter_number)
      for argument in _of_parameter(instruction)
  ]
  return _Facts(tuple(arguments), constraints, constants, operations, results)


def _of_record(tensor: TensorRecord) -> Argument:
  return Argument(
      str(tensor.shape), tensor.spec or tensor.placement,
      'none' if tensor.priority is None else str(tensor.priority), tensor.name)


def _of_parameter(parameter: HloInstructionProto) -> list[Argument]:
  sharding = (
      str(op_sharding.from_bytes(parameter.sharding))
      if parameter.HasField('sharding') else 'none')
  return [
      Argument(str(shape), sharding, 'none')
      for shape in array_shape.arrays_of(parameter.shape)
  ]


def _value(literal: LiteralProto) -> str:
  shape = ', '.join(map(str, array_shape.arrays_of(literal.shape)))
  values = [v for name in _VALUES for v in getattr(literal, name)]
  if not values or len(values) > _MOST_VALUES:
    data = literal.SerializeToString(deterministic=True)
    return f'{shape} with checksum {zlib.crc32(data):08x}'
  if literal.f32s:
    values = [np.float32(v) for v in values]
  return f'{shape} {", ".join(map(str, values))}'
