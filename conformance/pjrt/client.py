"""A plugin's client: its devices, and what goes to them, or has failed to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import contextlib
import ctypes
import dataclasses
from typing import Any, Optional

from . import structs
from .artifacts import as_artifact
from .buffer import Buffer, destroy, floats, read_floats
from .executable import Loaded
from .host_array import HostArray, TYPES
from .programs import Program
from .table import named_values, pointers, Table, text

_IMMUTABLE_UNTIL_TRANSFERRED = 1


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
  def start(cls, table: Table, options: Mapping[str, Any]) -> Iterator[Client]:
    """Starts a client, and ends it behind the block."""
    with named_values(dict(options)) as (address, count):
      client = table.call(
          'Client_Create', create_options=address, num_options=count).client
    try:
      answer = table.call('Client_AddressableDevices', client=client)
      devices = sorted((_id(table, device), device) for device in pointers(
          answer.addressable_devices, answer.num_addressable_devices))
      yield cls(table, client, tuple(d for _, d in devices),
                tuple(i for i, _ in devices))
    finally:
      table.call('Client_Destroy', client=client)

  def put(self,
          array: HostArray,
          device: int = 0,
          strides: Sequence[int] = ()) -> Buffer:
    """Copies an array to the device at a position of `devices`.

    Args:
      strides: of the array's bytes; none: row-major.
    """
    data = ctypes.create_string_buffer(array.data, max(1, len(array.data)))
    transfer, held = self.upload(
        ctypes.addressof(data), array.type_number, array.dims, device, strides)
    self.table.call_with('Client_BufferFromHostBuffer', transfer)
    del held
    self.table.await_event(transfer.done_with_host_buffer)
    return Buffer(self.table, transfer.buffer)

  def upload(
      self,
      data: int,
      type_number: int,
      dims: Sequence[int],
      device: int = 0,
      strides: Sequence[int] = ()
  ) -> tuple[ctypes.Structure, object]:
    """The arguments of a call that copies what lies at `data` to a device.

    Returns:
      The struct, and what it points to, which has to live as long.
    """
    sizes = (ctypes.c_int64 * max(1, len(dims)))(*dims)
    steps = (ctypes.c_int64 * max(1, len(strides)))(*strides)
    transfer = structs.make(
        'Client_BufferFromHostBuffer',
        client=self.address,
        data=data,
        type=type_number,
        dims=ctypes.addressof(sizes),
        num_dims=len(dims),
        byte_strides=ctypes.addressof(steps) if strides else None,
        num_byte_strides=len(strides),
        host_buffer_semantics=_IMMUTABLE_UNTIL_TRANSFERRED,
        device=self.devices[device])
    return transfer, (sizes, steps)

  def run(self, loaded: Loaded, *given: Iterable[float]) -> tuple[float, ...]:
    """The result of a program for the first device, as large as its arguments.
    """
    arrays = [floats(values) for values in given]
    buffers = [self.put(array) for array in arrays]
    (result,), = loaded.execute([buffers])
    actual = read_floats(result, arrays[0].dims[0])
    destroy((*buffers, result))
    return actual

  def compile(self, program: Program) -> Loaded:
    """Compiles a program.

    Raises:
      PjrtError: the plugin refuses it.
    """
    with self.written(program).as_arguments() as arguments:
      got = self.table.call('Client_Compile', client=self.address, **arguments)
    return Loaded(self.table, got.executable)

  def written(self, program: Program) -> Program:
    """A program as it is sent."""
    if self.artifact_version:
      return as_artifact(program, self.artifact_version)
    return program

  def load(self, serialized: bytes) -> Loaded:
    """Loads what `serialize` gave.

    Raises:
      PjrtError: the plugin refuses it.
    """
    data = ctypes.create_string_buffer(serialized, max(1, len(serialized)))
    executable = self.table.call(
        'Executable_DeserializeAndLoad',
        client=self.address,
        serialized_executable=ctypes.addressof(data),
        serialized_executable_size=len(serialized))
    return Loaded(self.table, executable.loaded_executable)

  @property
  def platform(self) -> str:
    """The platform's name, as the plugin says it: 'cpu', 'tpu'."""
    answer = self.table.call('Client_PlatformName', client=self.address)
    return text(answer.platform_name, answer.platform_name_size)

  def bytes_in_use(self, device: int = 0) -> int:
    """The bytes that are allocated on a device.

    Raises:
      PjrtError, MissingError: the plugin does not tell.
    """
    return self.table.call(
        'Device_MemoryStats', device=self.devices[device]).bytes_in_use


def _id(table: Table, device: int) -> int:
  description = table.call(
      'Device_GetDescription', device=device).device_description
  return table.call('DeviceDescription_Id', device_description=description).id


WORDS = 'the transfer of this buffer has failed'

_RESOURCE_EXHAUSTED = 8


@contextlib.contextmanager
def pending_buffer(client: Client,
                   count: int) -> Iterator[tuple[Buffer, Callable[[], None]]]:
  """A buffer for `count` float32 on the first device, of which nothing came yet.

  With it, what puts an error of WORDS into it; at the end of the block that is
  there in any case.

  Raises:
    MissingError, PjrtError: the plugin has no transfers of that kind.
  """
  table = client.table
  memory = table.call('Device_DefaultMemory', device=client.devices[0]).memory
  dims = (ctypes.c_int64 * 1)(count)
  spec = structs.make(
      'ShapeSpec',
      room=False,
      dims=ctypes.addressof(dims),
      num_dims=1,
      element_type=TYPES['F32'][0])
  manager = table.call(
      'Client_CreateBuffersForAsyncHostToDevice',
      client=client.address,
      shape_specs=ctypes.addressof(spec),
      num_shape_specs=1,
      memory=memory).transfer_manager
  words = ctypes.create_string_buffer(WORDS.encode())
  waiting = [True]

  def fail() -> None:
    if waiting:
      waiting.clear()
      table.call(
          'AsyncHostToDeviceTransferManager_SetBufferError',
          transfer_manager=manager,
          error_code=_RESOURCE_EXHAUSTED,
          error_message=ctypes.addressof(words),
          error_message_size=len(WORDS))

  try:
    buffer = Buffer(
        table,
        table.call(
            'AsyncHostToDeviceTransferManager_RetrieveBuffer',
            transfer_manager=manager).buffer_out)
    try:
      yield buffer, fail
    finally:
      fail()
      buffer.destroy()
  finally:
    table.call(
        'AsyncHostToDeviceTransferManager_Destroy', transfer_manager=manager)


@contextlib.contextmanager
def failed_buffer(client: Client, count: int) -> Iterator[Buffer]:
  """A buffer as `pending_buffer`, with the error in it.

  Raises:
    MissingError, PjrtError: the plugin has no transfers of that kind.
  """
  with pending_buffer(client, count) as (buffer, fail):
    fail()
    yield buffer
