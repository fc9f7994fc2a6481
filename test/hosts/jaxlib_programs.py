"""PJRT's executables, as those of jaxlib's CPU client."""

from __future__ import annotations

from collections.abc import Sequence
import ctypes
from typing import Any

from answered_table import AnsweredTable, Handles
from jaxlib_buffers import Buffer, NUMBERS
from jaxlib_devices import Devices
import numpy as np
from torch_xla_conformance.pjrt import structs, table
from torch_xla.shardy.hlo import messages, protos

_FORMAT = 'hlo_with_config'


class Executable:
  """A program that is compiled for all devices."""

  def __init__(self, loaded: Any, devices: Devices):
    import jax
    from jaxlib import xla_client
    self.loaded = loaded
    module = loaded.hlo_modules()[0]
    self.name: str = module.name
    message = module.as_serialized_hlo_module_proto()
    shape = messages.parse(protos.HloModuleProto, message).host_program_shape
    # HloModuleProtoWithConfig; of the config the entry's layout suffices.
    self.optimized = _field(1, message) + _field(
        2, _field(1, shape.SerializeToString()))
    result = xla_client.XlaComputation(message).program_shape().result_shape()
    self.outputs = [
        (NUMBERS[np.dtype(part.numpy_dtype())], part.dimensions())
        for part in (result.tuple_shapes() if result.is_tuple() else (result,))
    ]
    self._mesh = jax.sharding.Mesh(np.array(devices.all), ('devices',))

  def run(self, arguments: Sequence[Sequence[Buffer]]) -> list[list[Any]]:
    """The arrays of each output by device, computed.

    Args:
      arguments: of each parameter the buffers by device.
    """
    results = self.loaded.execute_sharded(list(map(
        self._whole, arguments))).disassemble_into_single_device_arrays()
    for array in (array for arrays in results for array in arrays):
      array.block_until_ready()
    return results

  def _whole(self, shards: Sequence[Buffer]) -> Any:
    """An array that is split like its shards; how, the program knows itself."""
    import jax
    dims, axes = shards[0].dims, jax.sharding.PartitionSpec()
    if dims:
      dims = (dims[0] * self._mesh.size, *dims[1:])
      axes = jax.sharding.PartitionSpec('devices')
    return jax.make_array_from_single_device_arrays(
        dims, jax.sharding.NamedSharding(self._mesh, axes),
        [shard.array for shard in shards])


class Programs:
  """Their functions."""

  def __init__(self, handles: Handles, devices: Devices):
    self._handles = handles
    self._devices = devices
    self._deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(handles.drop)

  def Client_Compile(self, args: Any) -> dict[str, int]:
    from jaxlib import _jax, xla_client
    program: Any = structs.struct('Program').from_address(args.program)
    options = xla_client.CompileOptions.ParseFromString(
        ctypes.string_at(args.compile_options, args.compile_options_size))
    if options.num_partitions != len(self._devices.all):
      raise ValueError(f'INVALID_ARGUMENT: {options.num_partitions} partitions '
                       f'on {len(self._devices.all)} devices')
    code = ctypes.string_at(program.code, program.code_size)
    if table.text(program.format, program.format_size) == 'hlo':
      code = _jax.mlir.xla_computation_to_mlir_module(
          xla_client.XlaComputation(code))
    loaded = self._devices.client.compile_and_load(code,
                                                   tuple(self._devices.all),
                                                   options)
    return self._loaded(loaded)

  def _loaded(self, loaded: Any) -> dict[str, int]:
    return {'executable': self._handles.hold(Executable(loaded, self._devices))}

  def Executable_Destroy(self, args: Any) -> None:
    self._handles.drop(args.executable)

  LoadedExecutable_Destroy = LoadedExecutable_Delete = Executable_Destroy

  def LoadedExecutable_IsDeleted(self, args: Any) -> dict[str, bool]:
    return {'is_deleted': False}

  def LoadedExecutable_GetExecutable(self, args: Any) -> dict[str, int]:
    executable = self._handles[args.loaded_executable]
    return {'executable': self._handles.hold(executable)}

  def LoadedExecutable_AddressableDevices(self, args: Any) -> dict[str, int]:
    return self._devices.Client_AddressableDevices(args)

  def LoadedExecutable_Execute(self, args: Any) -> None:
    rows = [[
        self._handles[buffer] for buffer in table.pointers(row, args.num_args)
    ] for row in table.pointers(args.argument_lists, args.num_devices)]
    results = self._handles[args.executable].run(list(zip(*rows, strict=True)))
    rows_out = table.pointers(args.output_lists, args.num_devices)
    for i, (row, device) in enumerate(
        zip(rows_out, self._devices.local, strict=True)):
      buffers = [self._handles.hold(Buffer(r[i], device)) for r in results]
      (ctypes.c_void_p * len(buffers)).from_address(row)[:] = buffers
    if args.device_complete_events:
      events = [AnsweredTable.EVENT] * args.num_devices
      (ctypes.c_void_p * len(events)).from_address(
          args.device_complete_events)[:] = events

  def Executable_Name(self, args: Any) -> dict[str, int]:
    return self._handles.text('text', self._handles[args.of].name)

  def Executable_NumReplicas(self, args: Any) -> dict[str, int]:
    return {'number': 1}

  def Executable_NumPartitions(self, args: Any) -> dict[str, int]:
    return {'number': len(self._devices.all)}

  def Executable_SizeOfGeneratedCodeInBytes(self, args: Any) -> dict[str, int]:
    return {'number': 0}

  def Executable_NumOutputs(self, args: Any) -> dict[str, int]:
    return {'num_outputs': len(self._handles[args.executable].outputs)}

  def Executable_OutputMemoryKinds(self, args: Any) -> dict[str, int]:
    count = len(self._handles[args.executable].outputs)
    kind = self._handles.text('kind', 'device')
    array = self._handles.array
    return {
        'num_outputs': count,
        'memory_kinds': array(ctypes.c_void_p, [kind['kind']] * count),
        'memory_kind_sizes': array(ctypes.c_size_t, [kind['kind_size']] * count)
    }

  def Executable_OutputElementTypes(self, args: Any) -> dict[str, int]:
    outputs = self._handles[args.executable].outputs
    types = [number for number, _ in outputs]
    return {
        'output_types': self._handles.array(ctypes.c_int, types),
        'num_output_types': len(types)
    }

  def Executable_OutputDimensions(self, args: Any) -> dict[str, int]:
    dims = [dims for _, dims in self._handles[args.executable].outputs]
    array = self._handles.array
    return {
        'num_outputs': len(dims),
        'dims': array(ctypes.c_int64, [n for each in dims for n in each]),
        'dim_sizes': array(ctypes.c_size_t, map(len, dims))
    }

  def Executable_OptimizedProgram(self, args: Any) -> None:
    program: Any = structs.struct('Program').from_address(args.program)
    code = self._handles[args.executable].optimized
    if program.code:
      ctypes.memmove(program.code, code, len(code))
    program.code_size = len(code)
    form = self._handles.text('format', _FORMAT)
    program.format, program.format_size = form['format'], form['format_size']

  def Executable_Serialize(self, args: Any) -> dict[str, int]:
    data = self._devices.client.serialize_executable(
        self._handles[args.executable].loaded)
    kept = ctypes.create_string_buffer(data, len(data))
    return {
        'serialized_bytes':
            ctypes.addressof(kept),
        'serialized_bytes_size':
            len(data),
        'serialized_executable':
            self._handles.hold(kept),
        'serialized_executable_deleter':
            ctypes.cast(self._deleter, ctypes.c_void_p).value
    }

  def Executable_DeserializeAndLoad(self, args: Any) -> dict[str, int]:
    data = ctypes.string_at(args.serialized_executable,
                            args.serialized_executable_size)
    loaded = self._devices.client.deserialize_executable(
        data, tuple(self._devices.all), None)
    return {
        'loaded_executable':
            self._handles.hold(Executable(loaded, self._devices))
    }


def _field(number: int, data: bytes) -> bytes:
  """A field of a message, as protobuf reads it."""
  sizes = [len(data) >> shift & 127 for shift in range(0, 35, 7)]
  return bytes(
      (number << 3 | 2, *(s | 128 for s in sizes[:-1]), sizes[-1])) + data
