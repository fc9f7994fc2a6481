"""Programs of several steps, in HLO and in StableHLO."""

from __future__ import annotations

from collections.abc import Sequence
import dataclasses
import math
import struct
from typing import Any

from ..shared.hlo import array_shape, messages
from ..shared.hlo.compile_options import Partitioner
from ..shared.hlo.protos import HloModuleProto
from .programs import (compile_options, HLO, MLIR_TYPES, Program,
                       replica_options)

_SUMS = ('all-reduce', 'reduce-scatter')
_COLLECTIVES = (*_SUMS, 'all-gather', 'all-to-all', 'collective-permute')

Groups = tuple[tuple[int, ...], ...]


@dataclasses.dataclass(frozen=True)
class Array:
  """A type of arrays: 'f32', and dimensions."""
  dtype: str
  dims: tuple[int, ...]

  @property
  def shape(self) -> bytes:
    """A serialised ShapeProto."""
    return array_shape.with_dims(
        array_shape.with_type(b'', self.dtype), self.dims)

  @property
  def mlir(self) -> str:
    dims = ''.join(f'{d}x' for d in self.dims)
    return f'tensor<{dims}{MLIR_TYPES.get(self.dtype, self.dtype)}>'

  @property
  def count(self) -> int:
    return math.prod(self.dims)


@dataclasses.dataclass(frozen=True)
class Step:
  """An instruction.

  Attributes:
    opcode: of HLO; a collective goes along dimension 0, and reduces by a sum.
    result: its type.
    operands: the numbers of values: of the parameters first, then of the steps.
    groups: of replicas, of a collective; of a collective-permute pairs, from
      the first to the second.
    numbers: of a constant, which is of float32.
  """
  opcode: str
  result: Array
  operands: tuple[int, ...] = ()
  groups: Groups = ()
  numbers: tuple[float, ...] = ()


@dataclasses.dataclass(frozen=True)
class Graph:
  """Parameters, steps, and which values are the results.

  Attributes:
    donated: parameters, the place of each of which the result of the same
      position takes.
  """
  parameters: tuple[Array, ...]
  steps: tuple[Step, ...]
  results: tuple[int, ...]
  donated: tuple[int, ...] = ()

  @property
  def values(self) -> tuple[Array, ...]:
    return (*self.parameters, *(step.result for step in self.steps))

  def program(self, form: str, device_ids: Sequence[int]) -> Program:
    """The program for one device, or the same on each of several."""
    partitioner = (
        Partitioner.GSPMD if len(device_ids) > 1 else Partitioner.NONE)
    code = self.hlo() if form == HLO else self.mlir(1, len(device_ids))
    return Program(code, form, compile_options(device_ids, partitioner))

  def replicated(self, form: str, device_ids: Sequence[int]) -> Program:
    """The program with a replica on each device."""
    code = self.hlo() if form == HLO else self.mlir(len(device_ids), 1)
    return Program(code, form, replica_options(device_ids))

  def hlo(self) -> bytes:
    """A serialised HloModuleProto."""
    module = messages.make(HloModuleProto)
    module.name, module.id, module.entry_computation_id = 'graph', 1, 1
    summed = sorted(
        {step.result.dtype for step in self.steps if step.opcode in _SUMS})
    for number, dtype in enumerate(summed):
      _add_sum(module, dtype, number + 2)
    entry = module.computations.add(name='main', id=1)
    shapes = [self.values[r].shape for r in self.results]
    result = shapes[0] if len(shapes) == 1 else array_shape.tuple_of(shapes)
    _set_signature(entry, [p.shape for p in self.parameters], result)
    module.host_program_shape.CopyFrom(entry.program_shape)
    for number, parameter in enumerate(self.parameters):
      _add_instruction(
          entry, 'parameter', parameter.shape, (), parameter_number=number)
    for step in self.steps:
      instruction = _add_instruction(entry, step.opcode, step.result.shape,
                                     step.operands)
      _set_attributes(instruction, step, summed)
    if len(shapes) == 1:
      entry.root_id = self.results[0] + 1
    else:
      entry.root_id = _add_instruction(entry, 'tuple', result, self.results).id
    for position, parameter in enumerate(self.donated):
      module.input_output_alias.entries.add(
          kind=1,  # It may be donated.
          parameter_number=parameter,
          output_shape_index=[position] if len(shapes) > 1 else [])
    return module.SerializeToString(deterministic=True)

  def mlir(self, replicas: int = 1, partitions: int = 1) -> bytes:
    """StableHLO, as text."""
    values = self.values
    notes = {
        parameter: f' {{tf.aliasing_output = {position} : i32}}'
        for position, parameter in enumerate(self.donated)
    }
    given = ', '.join(f'%{i}: {p.mlir}{notes.get(i, "")}'
                      for i, p in enumerate(self.parameters))
    types = ', '.join(values[r].mlir for r in self.results)
    lines = [
        f'    %{len(self.parameters) + i} = {_step_text(step, values)}'
        for i, step in enumerate(self.steps)
    ]
    results = ', '.join(f'%{r}' for r in self.results)
    body = '\n'.join(lines)
    return f'''
module @graph attributes {{mhlo.num_replicas = {replicas} : i32,
                           mhlo.num_partitions = {partitions} : i32}} {{
  func.func public @main({given}) -> ({types}) {{
{body}
    return {results} : {types}
  }}
}}
'''.encode()


def _add_instruction(computation: Any, opcode: str, shape: bytes,
                     operands: Sequence[int], **fields: Any) -> Any:
  number = len(computation.instructions)
  # Over all computations, ids are different.
  first = 1 + ((computation.id - 1) << 20)
  return computation.instructions.add(
      name=f'{computation.name}.{number}',
      opcode=opcode,
      shape=shape,
      id=first + number,
      operand_ids=[first + operand for operand in operands],
      **fields)


def _set_signature(computation: Any, parameters: Sequence[bytes],
                   result: bytes) -> None:
  signature = computation.program_shape
  signature.parameters.extend(parameters)
  signature.parameter_names.extend(f'p{i}' for i in range(len(parameters)))
  signature.result = result


def _add_sum(module: Any, dtype: str, identifier: int) -> None:
  """A computation of two numbers, by which a collective reduces."""
  number = Array(dtype, ()).shape
  computation = module.computations.add(name=f'sum_{dtype}', id=identifier)
  _set_signature(computation, (number, number), number)
  for i in range(2):
    _add_instruction(computation, 'parameter', number, (), parameter_number=i)
  computation.root_id = _add_instruction(computation, 'add', number, (0, 1)).id


def _set_attributes(op: Any, step: Step, summed: Sequence[str]) -> None:
  if step.opcode == 'concatenate' or step.opcode in _COLLECTIVES[1:4]:
    op.dimensions.append(0)
  if step.opcode in _SUMS:
    op.called_computation_ids.append(summed.index(step.result.dtype) + 2)
  if step.opcode == 'constant':
    op.literal.shape = step.result.shape
    op.literal.f32s.extend(step.numbers)
  if step.opcode == 'dot':
    op.dot_dimension_numbers.lhs_contracting_dimensions.append(1)
    op.dot_dimension_numbers.rhs_contracting_dimensions.append(0)
  for group in step.groups:
    if step.opcode == 'collective-permute':
      op.source_target_pairs.add(source=group[0], target=group[1])
    else:
      op.replica_groups.add(replica_ids=group)


def _step_text(step: Step, values: Sequence[Array]) -> str:
  operands = ', '.join(f'%{o}' for o in step.operands)
  types = ', '.join(values[o].mlir for o in step.operands)
  signature = f'({types}) -> {step.result.mlir}'
  name = f'stablehlo.{step.opcode.replace("-", "_")}'
  if step.opcode == 'constant':
    data = struct.pack(f'<{len(step.numbers)}f', *step.numbers).hex()
    return f'{name} dense<"0x{data}"> : {step.result.mlir}'
  if step.opcode == 'concatenate':
    return f'{name} {operands}, dim = 0 : {signature}'
  if step.opcode == 'dot':
    return f'{name} {operands} : {signature}'
  if step.opcode in _COLLECTIVES:
    return _collective_text(step, name, operands, signature)
  return f'"{name}"({operands}) : {signature}'


def _collective_text(step: Step, name: str, operands: str,
                     signature: str) -> str:
  count = f'{len(step.groups)}x{len(step.groups[0])}'
  rows = ', '.join(str(list(group)) for group in step.groups)
  groups = f'dense<[{rows}]> : tensor<{count}xi64>'
  attributes = {
      'all-reduce':
          f'replica_groups = {groups}',
      'reduce-scatter':
          f'replica_groups = {groups}, scatter_dimension = 0 : i64',
      'all-gather':
          f'replica_groups = {groups}, all_gather_dim = 0 : i64',
      'all-to-all':
          f'replica_groups = {groups}, split_dimension = 0 : i64, '
          f'concat_dimension = 0 : i64, '
          f'split_count = {len(step.groups[0])} : i64',
      'collective-permute':
          f'source_target_pairs = {groups}',
  }[step.opcode]
  region = ''
  if step.opcode in _SUMS:
    number = Array(step.result.dtype, ()).mlir
    region = (f' ({{^bb0(%l: {number}, %r: {number}): '
              f'%s = stablehlo.add %l, %r : {number} '
              f'stablehlo.return %s : {number}}})')
  return f'"{name}"({operands}) <{{{attributes}}}>{region} : {signature}'
