"""A buffer on a device; arrays of float32, and what is found in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
import ctypes
import dataclasses
import struct
from typing import Any

from . import structs
from .event import Event
from .host_array import HostArray
from .table import Table


@dataclasses.dataclass(frozen=True)
class Buffer:
  """A buffer on a device, which its owner destroys."""
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
    tiled = structs.make(
        'BufferMemoryLayoutTiled',
        room=False,
        minor_to_major=ctypes.addressof(order),
        minor_to_major_size=len(dims))
    layout = structs.make('BufferMemoryLayout', room=False, tiled=tiled)
    copied = self.table.call(
        'Buffer_ToHostBuffer',
        src=self.address,
        host_layout=ctypes.addressof(layout),
        dst=ctypes.addressof(memory),
        dst_size=nbytes)
    self.table.await_event(copied.event)
    return HostArray(type_name, tuple(dims), bytes(memory[:nbytes]))

  def ready_event(self) -> Event:
    """An event of its content, which the caller destroys."""
    return Event(
        self.table,
        self.table.call('Buffer_ReadyEvent', buffer=self.address).event)

  def copy_to(self, device: int) -> Buffer:
    """A copy on another device."""
    return Buffer(
        self.table,
        self.table.call(
            'Buffer_CopyToDevice', buffer=self.address,
            dst_device=device).dst_buffer)

  @property
  def deleted(self) -> bool:
    return self.table.call('Buffer_IsDeleted', buffer=self.address).is_deleted

  @property
  def nbytes(self) -> int:
    return self.table.call(
        'Buffer_OnDeviceSizeInBytes',
        buffer=self.address).on_device_size_in_bytes

  @property
  def pointer(self) -> int:
    """The address of the buffer's data on the device."""
    return self.table.call(
        'Buffer_UnsafePointer', buffer=self.address).buffer_pointer

  def delete(self) -> None:
    self.table.call('Buffer_Delete', buffer=self.address)

  def destroy(self) -> None:
    self.table.call('Buffer_Destroy', buffer=self.address)


def dims_of(answer: Any) -> tuple[int, ...]:
  """The dimensions in an answer of PJRT_Buffer_Dimensions."""
  if not answer.num_dims:
    return ()
  return tuple((ctypes.c_int64 * answer.num_dims).from_address(answer.dims))


def floats(values: Iterable[float]) -> HostArray:
  """An array of rank 1."""
  listed = tuple(values)
  return HostArray('F32', (len(listed),),
                   struct.pack(f'<{len(listed)}f', *listed))


def read_floats(buffer: Buffer, count: int) -> tuple[float, ...]:
  return struct.unpack(f'<{count}f', buffer.read('F32', (count,)).data)


def destroy(buffers: Sequence[Buffer]) -> None:
  for buffer in buffers:
    buffer.destroy()
