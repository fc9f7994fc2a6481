"""A plugin's client: its devices, and what goes to them, or has failed to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import contextlib
import dataclasses
from typing import Any, Optional, Union

from . import structs
from .buffer import Buffer, destroy, Handle
from .executable import Loaded
from .formats import Format
from .graph import Graph
from .host_array import floats, HostArray, TYPES
from .programs import Program
from .table import named_values, pointers, Table, text

_IMMUTABLE_UNTIL_TRANSFERRED = 1


@dataclasses.dataclass(eq=False)
class Client:
  """A client and the devices that it drives.

  Attributes:
    devices: the addressable ones, in order of their ids.
    ids: theirs.
    format: in which it takes programs; None: it is not known yet.
    owned: what is destroyed with it, by its identity.
  """
  table: Table
  address: int
  devices: tuple[int, ...]
  ids: tuple[int, ...]
  format: Optional[Format] = None
  owned: dict[int, Handle] = dataclasses.field(default_factory=dict)

  @classmethod
  @contextlib.contextmanager
  def start(cls,
            table: Table,
            options: Mapping[str, Any],
            format: Optional[Format] = None) -> Iterator[Client]:
    """Starts a client, and ends it behind the block."""
    client = table.call(
        'Client_Create',
        create_options=named_values(options),
        num_options=len(options)).client
    try:
      answer = table.call('Client_AddressableDevices', client=client)
      devices = sorted(
          (describe(table, device, 'Id').id, device) for device in pointers(
              answer.addressable_devices, answer.num_addressable_devices))
      started = cls(table, client, tuple(d for _, d in devices),
                    tuple(i for i, _ in devices), format)
      yield started
      started.release()
    finally:
      table.call('Client_Destroy', client=client)

  def release(self) -> None:
    """Destroys what is left, the last first."""
    destroy(reversed(list(self.owned.values())))

  def put(self,
          array: HostArray,
          device: int = 0,
          strides: Sequence[int] = ()) -> Buffer:
    """Copies an array to the device at a position of `devices`.

    Args:
      strides: of the array's bytes; none: row-major.
    """
    return self.send(
        self.upload(array.data, array.type_number, array.dims, device, strides))

  def send(self, transfer: Any) -> Buffer:
    """Makes the call that `upload` has prepared, and waits for it."""
    self.table.call_with('Client_BufferFromHostBuffer', transfer)
    self.table.await_event(transfer.done_with_host_buffer)
    return Buffer(self, transfer.buffer)

  def put_floats(self, values: Iterable[float], device: int = 0) -> Buffer:
    """Copies numbers, as float32, to the device at a position."""
    return self.put(floats(values), device)

  def upload(self,
             data: Union[bytes, int],
             type_number: int,
             dims: Sequence[int],
             device: int = 0,
             strides: Sequence[int] = ()) -> Any:
    """The arguments of a call that copies bytes, or what is there, to a device.
    """
    return structs.make(
        'Client_BufferFromHostBuffer',
        client=self.address,
        data=data,
        type=type_number,
        dims=tuple(dims),
        byte_strides=tuple(strides) or None,
        host_buffer_semantics=_IMMUTABLE_UNTIL_TRANSFERRED,
        device=self.devices[device])

  def run(self, loaded: Loaded, *given: Iterable[float]) -> tuple[float, ...]:
    """The result of a program for the first device, as large as its arguments.
    """
    arrays = [floats(values) for values in given]
    buffers = [self.put(array) for array in arrays]
    (result,), = loaded.execute([buffers])
    actual = result.floats(arrays[0].dims[0])
    destroy((*buffers, result))
    return actual

  def program(self, graph: Graph, *args: Any, **values: Any) -> Program:
    """A program as `Graph.program` has it; without devices, for the first one.
    """
    assert self.format
    return graph.program(self.format.name, *(args or (self.ids[:1],)), **values)

  def written(self, program: Program) -> Program:
    """A program as it is sent."""
    return self.format.written(program) if self.format else program

  def compile(self, program: Union[Graph, Program], *args: Any,
              **values: Any) -> Loaded:
    """Compiles a program; of a graph, that of `self.program`.

    Raises:
      PjrtError: the plugin refuses it.
    """
    if isinstance(program, Graph):
      program = self.program(program, *args, **values)
    got = self.table.call(
        'Client_Compile',
        client=self.address,
        **self.written(program).arguments())
    return Loaded(self, got.executable)

  def load(self, serialized: bytes) -> Loaded:
    """Loads what `serialize` gave.

    Raises:
      PjrtError: the plugin refuses it.
    """
    executable = self.table.call(
        'Executable_DeserializeAndLoad',
        client=self.address,
        serialized_executable=serialized)
    return Loaded(self, executable.loaded_executable)

  @property
  def platform(self) -> str:
    """The platform's name, as the plugin says it: 'cpu', 'tpu'."""
    answer = self.table.call('Client_PlatformName', client=self.address)
    return text(answer.platform_name, answer.platform_name_size)

  def memories(self) -> tuple[int, ...]:
    """The default memory of each device."""
    return tuple(
        self.table.call('Device_DefaultMemory', device=device).memory
        for device in self.devices)

  def bytes_in_use(self, device: int = 0) -> int:
    """The bytes that are allocated on a device.

    Raises:
      PjrtError, MissingError: the plugin does not tell.
    """
    return self.table.call(
        'Device_MemoryStats', device=self.devices[device]).bytes_in_use


def describe(table: Table, device: int, function: str) -> Any:
  """The answer of a function of a device's description."""
  got = table.call('Device_GetDescription', device=device)
  return table.call(
      f'DeviceDescription_{function}',
      device_description=got.device_description)


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
  manager = table.call(
      'Client_CreateBuffersForAsyncHostToDevice',
      client=client.address,
      shape_specs=structs.make(
          'ShapeSpec', room=False, dims=[count], element_type=TYPES['F32'][0]),
      num_shape_specs=1,
      memory=memory).transfer_manager
  waiting = [True]

  def fail() -> None:
    if waiting:
      waiting.clear()
      table.call(
          'AsyncHostToDeviceTransferManager_SetBufferError',
          transfer_manager=manager,
          error_code=_RESOURCE_EXHAUSTED,
          error_message=WORDS.encode())

  try:
    buffer = Buffer(
        client,
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
