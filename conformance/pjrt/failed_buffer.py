"""A buffer that is still to come, and one whose transfer has failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import contextlib
import ctypes

from . import structs
from .buffer import Buffer
from .client import Client
from .host_array import TYPES

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
