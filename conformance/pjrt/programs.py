"""Small programs, in HLO and in StableHLO, and the options that go with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import ctypes
import dataclasses
from typing import Any, Optional

from ..shared.hlo import array_shape, messages, op_sharding
from ..shared.hlo.compile_options import Partitioner
from ..shared.hlo.protos import CompileOptionsProto, HloModuleProto
from ..shared.sharding.hlo_sharding import HloSharding
from . import structs

HLO, MLIR = 'hlo', 'mlir'
# As MLIR calls the element types that it calls otherwise.
MLIR_TYPES = {
    'pred': 'i1',
    **{
        f'{kind}{bits}': f'{mlir}{bits}' for kind, mlir in (('s', 'i'), ('u', 'ui')) for bits in (8, 16, 32, 64)
    }
}
# CustomCallApiVersion of xla/service/hlo.proto.
_TYPED_FFI = 4


@dataclasses.dataclass(frozen=True)
class Program:
  """A program as it goes to a compiler.

  Attributes:
    code: a serialised HloModuleProto, or StableHLO.
    format: 'hlo' or 'mlir'.
    options: a serialised CompileOptionsProto.
  """
  code: bytes
  format: str
  options: bytes

  @contextlib.contextmanager
  def as_arguments(self) -> Iterator[dict[str, Any]]:
    """The arguments of a compiling function, while in the block."""
    code, form, options = (
        ctypes.create_string_buffer(part, max(1, len(part)))
        for part in (self.code, self.format.encode(), self.options))
    program = structs.make(
        'Program',
        room=False,
        code=ctypes.addressof(code),
        code_size=len(self.code),
        format=ctypes.addressof(form),
        format_size=len(self.format))
    yield {
        'program': ctypes.addressof(program),
        'compile_options': ctypes.addressof(options),
        'compile_options_size': len(self.options),
    }


def compile_options(device_ids: Sequence[int],
                    partitioner: Partitioner = Partitioner.NONE) -> bytes:
  """The options for one replica with a partition on each device."""
  message = messages.make(CompileOptionsProto)
  build = message.executable_build_options
  build.num_replicas, build.num_partitions = 1, len(device_ids)
  build.use_spmd_partitioning = partitioner is not Partitioner.NONE
  build.use_shardy_partitioner = partitioner is Partitioner.SHARDY
  assignment = build.device_assignment
  assignment.replica_count = 1
  assignment.computation_count = len(device_ids)
  for device in device_ids:
    assignment.computation_devices.add().replica_device_ids.append(device)
  return message.SerializeToString(deterministic=True)


def replica_options(device_ids: Sequence[int]) -> bytes:
  """The options for one partition with a replica on each device."""
  message = messages.make(CompileOptionsProto)
  build = message.executable_build_options
  build.num_replicas, build.num_partitions = len(device_ids), 1
  assignment = build.device_assignment
  assignment.replica_count = len(device_ids)
  assignment.computation_count = 1
  assignment.computation_devices.add().replica_device_ids.extend(device_ids)
  return message.SerializeToString(deterministic=True)


@dataclasses.dataclass(frozen=True)
class Elementwise:
  """A program of `left <opcode> right` for two arrays of one shape.

  Attributes:
    opcode: of HLO, as StableHLO has it too: 'add', 'multiply'.
    donated: whether the result takes the place of the first argument.
    shardings: of the two arguments and the result, if it is partitioned.
  """
  dims: tuple[int, ...]
  opcode: str = 'add'
  dtype: str = 'f32'
  donated: bool = False
  shardings: Optional[tuple[HloSharding, HloSharding, HloSharding]] = None

  def program(self,
              form: str,
              device_ids: Sequence[int] = (0,),
              partitioner: Partitioner = Partitioner.NONE) -> Program:
    code = self.hlo() if form == HLO else self.mlir(len(device_ids))
    return Program(code, form, compile_options(device_ids, partitioner))

  def hlo(self) -> bytes:
    """A serialised HloModuleProto."""
    shape = _shape(self.dtype, self.dims)
    module = _module(self.opcode, (shape, shape), shape)
    if self.shardings:
      for instruction, sharding in zip(module.computations[0].instructions,
                                       self.shardings):
        instruction.sharding = op_sharding.to_bytes(sharding)
    if self.donated:
      entry = module.input_output_alias.entries.add()
      entry.kind = 1  # It may be donated.
    return module.SerializeToString(deterministic=True)

  def mlir(self, num_partitions: int = 1) -> bytes:
    """The program in StableHLO, as text."""
    dims = ''.join(f'{d}x' for d in self.dims)
    kind = f'tensor<{dims}{MLIR_TYPES.get(self.dtype, self.dtype)}>'
    notes: list[dict[str, str]] = [{}, {}, {}]
    for note, sharding in zip(notes, self.shardings or ()):
      note['mhlo.sharding'] = f'"{sharding}"'
    if self.donated:
      notes[0]['tf.aliasing_output'] = '0 : i32'
    left, right, result = map(_attributes, notes)
    return f'''
module @{self.opcode} attributes {{mhlo.num_replicas = 1 : i32,
                               mhlo.num_partitions = {num_partitions} : i32}} {{
  func.func public @main(%left: {kind}{left}, %right: {kind}{right})
      -> ({kind}{result}) {{
    %0 = stablehlo.{self.opcode} %left, %right : {kind}
    return %0 : {kind}
  }}
}}
'''.encode()


@dataclasses.dataclass(frozen=True)
class Spread:
  """A number, `count` times."""
  count: int

  def program(self, form: str, device_ids: Sequence[int]) -> Program:
    code = self.hlo() if form == HLO else self.mlir()
    return Program(code, form, compile_options(device_ids))

  def hlo(self) -> bytes:
    module = _module('broadcast', (_shape('f32', (1,)),),
                     _shape('f32', (1, self.count)))
    module.computations[0].instructions[-1].dimensions.append(0)
    return module.SerializeToString(deterministic=True)

  def mlir(self) -> bytes:
    return f'''
module @broadcast {{
  func.func public @main(%one: tensor<1xf32>) -> tensor<1x{self.count}xf32> {{
    %0 = stablehlo.broadcast_in_dim %one, dims = [0]
        : (tensor<1xf32>) -> tensor<1x{self.count}xf32>
    return %0 : tensor<1x{self.count}xf32>
  }}
}}
'''.encode()


@dataclasses.dataclass(frozen=True)
class CustomCall:
  """A call of a target that a typed FFI handler is, of `count` numbers."""
  target: str
  count: int

  def program(self, form: str, device_ids: Sequence[int]) -> Program:
    code = self.hlo() if form == HLO else self.mlir()
    return Program(code, form, compile_options(device_ids))

  def hlo(self) -> bytes:
    shape = _shape('f32', (self.count,))
    module = _module('custom-call', (shape,), shape)
    call = module.computations[0].instructions[-1]
    call.custom_call_target = self.target
    call.custom_call_api_version = _TYPED_FFI
    call.custom_call_has_side_effect = True
    return module.SerializeToString(deterministic=True)

  def mlir(self) -> bytes:
    kind = f'tensor<{self.count}xf32>'
    return f'''
module @call {{
  func.func public @main(%given: {kind}) -> {kind} {{
    %0 = stablehlo.custom_call @{self.target}(%given) {{
        api_version = {_TYPED_FFI} : i32, backend_config = {{}},
        has_side_effect = true}} : ({kind}) -> {kind}
    return %0 : {kind}
  }}
}}
'''.encode()


def _shape(dtype: str, dims: tuple[int, ...]) -> bytes:
  return array_shape.with_dims(array_shape.with_type(b'', dtype), dims)


def _module(opcode: str, parameters: Sequence[bytes], result: bytes) -> Any:
  """An HloModuleProto of parameters and one instruction that takes them all."""
  module = messages.make(HloModuleProto)
  module.name = f'{opcode}.1'
  module.entry_computation_id, module.id = 1, 1
  computation = module.computations.add()
  computation.name, computation.id = 'main', 1
  computation.program_shape.parameters.extend(parameters)
  computation.program_shape.result = result
  computation.program_shape.parameter_names.extend(
      f'argument{number}' for number in range(len(parameters)))
  module.host_program_shape.CopyFrom(computation.program_shape)
  for number, shape in enumerate(parameters):
    parameter = computation.instructions.add()
    parameter.name, parameter.opcode = f'argument{number}', 'parameter'
    parameter.id, parameter.parameter_number = number + 1, number
    parameter.shape = shape
  root = computation.instructions.add()
  root.name, root.opcode, root.shape = opcode, opcode, result
  root.id = computation.root_id = len(parameters) + 1
  root.operand_ids.extend(range(1, len(parameters) + 1))
  return module


def _attributes(values: Mapping[str, str]) -> str:
  if not values:
    return ''
  return ' {' + ', '.join(f'{k} = {v}' for k, v in values.items()) + '}'
