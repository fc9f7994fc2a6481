"""A plugin's client, buffers and programs, each destroyed by its owner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import ctypes
import dataclasses
from typing import Any, Optional

from . import structs
from .artifacts import as_artifact
from .host_array import HostArray
from .programs import Program
from .table import named_values, PjrtError, pointers, Table, text

_IMMUTABLE_UNTIL_TRANSFERRED = 1
_TILED_SIZE = 56  # Of PJRT_Buffer_MemoryLayout_Tiled.


@dataclasses.dataclass(frozen=True)
class Buffer:
  """A buffer on a device."""
  table: Table
  address: int

  def read(self, type_name: str, dims: Sequence[int]) -> HostArray:
    """The content, as an array of a type and dimensions.

    Raises:
      PjrtError: the plugin refuses, or has another size.
    """
    nbytes = HostArray.size_of(type_name, dims)
    memory = (ctypes.c_char * max(1, nbytes))()
    # Row-major, as torch_xla asks; without one it may be the device's.
    order = (ctypes.c_int64 * max(1, len(dims)))(*range(len(dims) - 1, -1, -1))
    layout = structs.make(
        'MemoryLayout',
        room=False,
        tiled_size=_TILED_SIZE,
        minor_to_major=ctypes.addressof(order),
        minor_to_major_size=len(dims))
    copied = self.table.call(
        'Buffer_ToHostBuffer',
        src=self.address,
        host_layout=ctypes.addressof(layout),
        dst=ctypes.addressof(memory),
        dst_size=nbytes)
    self.table.await_event(copied.event)
    return HostArray(type_name, tuple(dims), bytes(memory[:nbytes]))

  @property
  def deleted(self) -> bool:
    return self.table.call('Buffer_IsDeleted', buffer=self.address).is_deleted

  @property
  def nbytes(self) -> int:
    return self.table.call(
        'Buffer_OnDeviceSizeInBytes',
        buffer=self.address).on_device_size_in_bytes

  def delete(self) -> None:
    self.table.call('Buffer_Delete', buffer=self.address)

  def destroy(self) -> None:
    self.table.call('Buffer_Destroy', buffer=self.address)


@dataclasses.dataclass(frozen=True)
class Loaded:
  """A program that is compiled and loaded."""
  table: Table
  address: int

  @contextlib.contextmanager
  def executable(self) -> Iterator[int]:
    got = self.table.call(
        'LoadedExecutable_GetExecutable', loaded_executable=self.address)
    try:
      yield got.executable
    finally:
      self.table.call('Executable_Destroy', executable=got.executable)

  def num_outputs(self) -> int:
    with self.executable() as executable:
      return self.table.call(
          'Executable_NumOutputs', executable=executable).num_outputs

  def execute(self,
              arguments: Sequence[Sequence[Buffer]],
              outputs: int = 1,
              kept: Sequence[int] = ()) -> list[list[Buffer]]:
    """Runs the program and waits for it.

    Args:
      arguments: of each device.
      outputs: how many each device gives.
      kept: arguments that must not be donated.

    Returns:
      The outputs of each device, which the caller destroys.

    Raises:
      PjrtError: the plugin's, of the call or of what it waited for.
    """
    devices, count = len(arguments), len(arguments[0])
    lists = [(ctypes.c_void_p * max(1, count))(*(b.address
                                                 for b in of_device))
             for of_device in arguments]
    results = [(ctypes.c_void_p * max(1, outputs))() for _ in range(devices)]
    events = (ctypes.c_void_p * devices)()
    numbers = (ctypes.c_int64 * max(1, len(kept)))(*kept)
    options = structs.make(
        'ExecuteOptions',
        non_donatable_input_indices=ctypes.addressof(numbers),
        num_non_donatable_input_indices=len(kept))
    argument_lists = _pointers_to(lists)
    output_lists = _pointers_to(results)
    self.table.call(
        'LoadedExecutable_Execute',
        executable=self.address,
        options=ctypes.addressof(options),
        argument_lists=ctypes.addressof(argument_lists),
        num_devices=devices,
        num_args=count,
        output_lists=ctypes.addressof(output_lists),
        device_complete_events=ctypes.addressof(events))
    made = [[Buffer(self.table, address)
             for address in of_device[:outputs]]
            for of_device in results]
    failed: Optional[PjrtError] = None
    for event in events:
      try:
        self.table.await_event(event)
      except PjrtError as e:
        failed = failed or e
    if failed:
      for of_device in made:
        for buffer in of_device:
          buffer.destroy()
      raise failed
    return made

  def destroy(self) -> None:
    self.table.call('LoadedExecutable_Destroy', executable=self.address)


@dataclasses.dataclass(frozen=True)
class Client:
  """A client and the devices that it drives.

  Attributes:
    devices: the addressable ones, in order of their ids.
    ids: theirs.
    artifact_version: of StableHLO; programs in MLIR are written in it. None:
      they go as text.
  """
  table: Table
  address: int
  devices: tuple[int, ...]
  ids: tuple[int, ...]
  artifact_version: Optional[str] = None

  @classmethod
  @contextlib.contextmanager
  def of(cls, table: Table, options: Mapping[str, Any]) -> Iterator[Client]:
    """Starts a client, and ends it behind the block."""
    with named_values(dict(options)) as (address, count):
      made = table.call(
          'Client_Create', create_options=address, num_options=count).client
    try:
      told = table.call('Client_AddressableDevices', client=made)
      devices = sorted((_id(table, device), device) for device in pointers(
          told.addressable_devices, told.num_addressable_devices))
      yield cls(table, made, tuple(d for _, d in devices),
                tuple(i for i, _ in devices))
    finally:
      table.call('Client_Destroy', client=made)

  def put(self,
          array: HostArray,
          device: int = 0,
          strides: Sequence[int] = ()) -> Buffer:
    """Copies an array to the device at a position of `devices`.

    Args:
      strides: of the array's bytes; none: row-major.
    """
    data = ctypes.create_string_buffer(array.data, max(1, len(array.data)))
    dims = (ctypes.c_int64 * max(1, len(array.dims)))(*array.dims)
    steps = (ctypes.c_int64 * max(1, len(strides)))(*strides)
    given = self.table.call(
        'Client_BufferFromHostBuffer',
        client=self.address,
        data=ctypes.addressof(data),
        type=array.type_number,
        dims=ctypes.addressof(dims),
        num_dims=len(array.dims),
        byte_strides=ctypes.addressof(steps) if strides else None,
        num_byte_strides=len(strides),
        host_buffer_semantics=_IMMUTABLE_UNTIL_TRANSFERRED,
        device=self.devices[device])
    self.table.await_event(given.done_with_host_buffer)
    return Buffer(self.table, given.buffer)

  def compile(self, program: Program) -> Loaded:
    """Raises: PjrtError: the plugin refuses it."""
    if self.artifact_version:
      program = as_artifact(program, self.artifact_version)
    with program.as_arguments() as arguments:
      made = self.table.call('Client_Compile', client=self.address, **arguments)
    return Loaded(self.table, made.executable)

  def load(self, serialized: bytes) -> Loaded:
    """Loads what `serialize` gave.

    Raises:
      PjrtError: the plugin refuses it.
    """
    data = ctypes.create_string_buffer(serialized, max(1, len(serialized)))
    made = self.table.call(
        'Executable_DeserializeAndLoad',
        client=self.address,
        serialized_executable=ctypes.addressof(data),
        serialized_executable_size=len(serialized))
    return Loaded(self.table, made.loaded_executable)

  def bytes_in_use(self, device: int = 0) -> int:
    """Raises: PjrtError, MissingError: the plugin does not tell."""
    return self.table.call(
        'Device_MemoryStats', device=self.devices[device]).bytes_in_use


def serialize(table: Table, executable: int) -> bytes:
  told = table.call('Executable_Serialize', executable=executable)
  data = ctypes.string_at(told.serialized_bytes, told.serialized_bytes_size)
  ctypes.CFUNCTYPE(None, ctypes.c_void_p)(told.serialized_executable_deleter)(
      told.serialized_executable)
  return data


def optimized_program(table: Table, executable: int) -> tuple[bytes, str]:
  """What the compiler made, and its format."""
  program = structs.make('Program', room=False)
  where = ctypes.addressof(program)
  table.call(
      'Executable_OptimizedProgram', executable=executable, program=where)
  code = (ctypes.c_char * max(1, program.code_size))()
  program.code = ctypes.addressof(code)
  table.call(
      'Executable_OptimizedProgram', executable=executable, program=where)
  return bytes(code[:program.code_size]), text(program.format,
                                               program.format_size)


def dims_of(told: Any) -> tuple[int, ...]:
  """The dimensions in an answer of PJRT_Buffer_Dimensions."""
  if not told.num_dims:
    return ()
  return tuple((ctypes.c_int64 * told.num_dims).from_address(told.dims))


def _pointers_to(arrays: Sequence[ctypes.Array]) -> ctypes.Array:
  return (ctypes.c_void_p * len(arrays))(*map(ctypes.addressof, arrays))


def _id(table: Table, device: int) -> int:
  description = table.call(
      'Device_GetDescription', device=device).device_description
  return table.call('DeviceDescription_Id', device_description=description).id
