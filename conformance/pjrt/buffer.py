"""A buffer on a device, and other objects that a client owns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
import ctypes
import dataclasses
from typing import Any, ClassVar, TYPE_CHECKING

from . import structs
from .event import Event
from .host_array import HostArray
from .table import Table

if TYPE_CHECKING:
  from .client import Client


@dataclasses.dataclass(frozen=True)
class Handle:
  """An object of a plugin, destroyed with its client at the latest.

  Attributes:
    KIND: of PJRT's functions that it is for.
    FIELD: of their arguments.
  """
  client: Client
  address: int

  KIND: ClassVar[str]
  FIELD: ClassVar[str]

  def __post_init__(self):
    self.client.owned[id(self)] = self

  @property
  def table(self) -> Table:
    return self.client.table

  def call(self, function: str, **values: object) -> Any:
    """Calls one of its functions."""
    values[self.FIELD] = self.address
    return self.table.call(f'{self.KIND}_{function}', **values)

  def destroy(self) -> None:
    self.client.owned.pop(id(self), None)
    self.call('Destroy')


@dataclasses.dataclass(frozen=True)
class Buffer(Handle):
  """A buffer on a device."""
  KIND, FIELD = 'Buffer', 'buffer'

  def read(self, type_name: str, dims: Sequence[int]) -> HostArray:
    """The content, as an array of a type and dimensions.

    Raises:
      PjrtError: the plugin refuses, or has another size.
    """
    nbytes = HostArray.size_of(type_name, dims)
    memory = (ctypes.c_char * max(1, nbytes))()
    # Row-major, as torch_xla asks; without one it may be the device's.
    tiled = structs.make(
        'BufferMemoryLayoutTiled',
        room=False,
        minor_to_major=range(len(dims) - 1, -1, -1))
    layout = structs.make('BufferMemoryLayout', room=False, tiled=tiled)
    copied = self.table.call(
        'Buffer_ToHostBuffer',
        src=self.address,
        host_layout=layout,
        dst=memory,
        dst_size=nbytes)
    self.table.await_event(copied.event)
    return HostArray(type_name, tuple(dims), bytes(memory[:nbytes]))

  def floats(self, count: int) -> tuple[float, ...]:
    """The content of an array of float32."""
    return tuple(self.read('F32', (count,)).numbers().tolist())

  def copy_into(self, memory: ctypes.Array) -> Event:
    """Starts a copy to the host, in the device's own layout; when it is done."""
    copied = self.table.call(
        'Buffer_ToHostBuffer',
        src=self.address,
        dst=memory,
        dst_size=ctypes.sizeof(memory))
    return Event(self.table, copied.event)

  def ready_event(self) -> Event:
    """An event of its content, which the caller destroys."""
    return Event(self.table, self.call('ReadyEvent').event)

  def copy_to(self, place: int, kind: str = 'device') -> Buffer:
    """A copy on another device, or in the memory of one."""
    copy = self.call(f'CopyTo{kind.capitalize()}', **{f'dst_{kind}': place})
    return Buffer(self.client, copy.dst_buffer)

  @property
  def deleted(self) -> bool:
    return self.call('IsDeleted').is_deleted

  @property
  def device(self) -> int:
    return self.call('Device').device

  @property
  def type_number(self) -> int:
    return self.call('ElementType').type

  @property
  def nbytes(self) -> int:
    return self.call('OnDeviceSizeInBytes').on_device_size_in_bytes

  @property
  def pointer(self) -> int:
    """The address of the buffer's data on the device."""
    return self.call('UnsafePointer').buffer_pointer

  @property
  def dims(self) -> tuple[int, ...]:
    answer = self.call('Dimensions')
    return tuple(
        (ctypes.c_int64 *
         answer.num_dims).from_address(answer.dims)) if answer.num_dims else ()

  def delete(self) -> None:
    self.call('Delete')


def destroy(buffers: Iterable[Handle]) -> None:
  for buffer in buffers:
    buffer.destroy()
