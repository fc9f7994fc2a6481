"""Programs of one step or several, in HLO and in StableHLO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import dataclasses
import math
import struct
from types import MappingProxyType
from typing import Any, Optional

from ..shared.hlo import array_shape, messages, op_sharding
from ..shared.hlo.compile_options import Partitioner
from ..shared.hlo.protos import HloModuleProto
from ..shared.sharding.hlo_sharding import HloSharding
from .programs import compile_options, HLO, Program

# As MLIR calls the element types that it calls otherwise.
_MLIR_TYPES = {
    'pred': 'i1',
    'c64': 'complex<f32>',
    'f8e5m2': 'f8E5M2',
    'f8e4m3fn': 'f8E4M3FN',
    **{
        f'{kind}{bits}': f'{mlir}{bits}' for kind, mlir in (('s', 'i'), ('u', 'ui')) for bits in (8, 16, 32, 64)
    }
}

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
    return f'tensor<{dims}{_MLIR_TYPES.get(self.dtype, self.dtype)}>'

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
    shardings: of all values, if they are partitioned by them.
    name: of the program.
  """
  parameters: tuple[Array, ...]
  steps: tuple[Step, ...]
  results: tuple[int, ...]
  donated: tuple[int, ...] = ()
  shardings: tuple[HloSharding, ...] = ()
  name: str = 'graph'

  @property
  def values(self) -> tuple[Array, ...]:
    return (*self.parameters, *(step.result for step in self.steps))

  def program(self,
              form: str,
              device_ids: Sequence[int] = (0,),
              partitioner: Optional[Partitioner] = None,
              replicas: bool = False) -> Program:
    """The program for one device, or for several.

    Args:
      partitioner: by which it is partitioned; None: by GSPMD, if it has several
        partitions.
      replicas: whether each device has a replica, and not a partition.
    """
    counts = (len(device_ids), 1) if replicas else (1, len(device_ids))
    code = self.hlo() if form == HLO else self.mlir(*counts)
    partitioner = partitioner or (Partitioner.GSPMD
                                  if counts[1] > 1 else Partitioner.NONE)
    return Program(code, form, compile_options(device_ids, partitioner,
                                               replicas))

  def hlo(self) -> bytes:
    """A serialised HloModuleProto."""
    module = messages.make(HloModuleProto)
    module.name, module.id, module.entry_computation_id = self.name, 1, 1
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
    for instruction, sharding in zip(entry.instructions, self.shardings):
      instruction.sharding = op_sharding.to_bytes(sharding)
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

  def mlir(
      self,
      replicas: int = 1,
      partitions: int = 1,
      mesh: str = '',
      module_note: str = '',
      notes: Mapping[int, str] = MappingProxyType({})
  ) -> bytes:
    """StableHLO, as text.

    Args:
      mesh: an operation before the function.
      module_note: one more attribute of the module.
      notes: more attributes, by value, of parameters and results.
    """
    values = self.values
    attributes = {
        value: [f'mhlo.sharding = "{sharding}"']
        for value, sharding in enumerate(self.shardings)
    }
    for value, note in notes.items():
      attributes.setdefault(value, []).append(note)
    result_notes = {value: list(each) for value, each in attributes.items()}
    for position, parameter in enumerate(self.donated):
      attributes.setdefault(parameter,
                            []).append(f'tf.aliasing_output = {position} : i32')

    def noted(value: int, of: Mapping[int, list[str]]) -> str:
      more = f' {{{", ".join(of[value])}}}' if value in of else ''
      return f'{values[value].mlir}{more}'

    given = ', '.join(
        f'%{i}: {noted(i, attributes)}' for i in range(len(self.parameters)))
    lines = '\n'.join(
        f'    %{len(self.parameters) + i} = {_step_text(step, values)}'
        for i, step in enumerate(self.steps))
    return f'''
module @{self.name} attributes {{mhlo.num_replicas = {replicas} : i32,
    mhlo.num_partitions = {partitions} : i32{module_note and ", "}{module_note}}} {{
  {mesh}
  func.func public @main({given})
      -> ({', '.join(noted(r, result_notes) for r in self.results)}) {{
{lines}
    return {', '.join(f'%{r}' for r in self.results)}
        : {', '.join(values[r].mlir for r in self.results)}
  }}
}}
'''.encode()


def elementwise(
    dims: tuple[int, ...],
    opcode: str = 'add',
    dtype: str = 'f32',
    donated: bool = False,
    shardings: tuple[HloSharding, ...] = ()) -> Graph:
  """A program of `left <opcode> right` for two arrays of one shape.

  Args:
    opcode: of HLO, as StableHLO has it too: 'add', 'multiply'.
    donated: whether the result takes the place of the first argument.
    shardings: of the two arguments and the result, if it is partitioned.
  """
  array = Array(dtype, dims)
  return Graph((array, array), (Step(opcode, array, (0, 1)),), (2,),
               (0,) if donated else (), shardings, opcode)


def spread(count: int) -> Graph:
  """A number, `count` times."""
  step = Step('broadcast', Array('f32', (1, count)), (0,))
  return Graph((Array('f32', (1,)),), (step,), (1,))


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
  if (step.opcode in ('broadcast', 'concatenate') or
      step.opcode in _COLLECTIVES[1:4]):
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
  if step.opcode == 'broadcast':
    return f'{name}_in_dim {operands}, dims = [0] : {signature}'
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
