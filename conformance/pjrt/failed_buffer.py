"""A buffer that never comes: its transfer has failed, as a host's may."""

from __future__ import annotations

from collections.abc import Iterator
import contextlib
import ctypes

from . import structs
from .buffer import Buffer
from .client import Client
from .host_array import TYPES

WORDS = 'the transfer of this buffer has failed'

_RESOURCE_EXHAUSTED = 8


@contextlib.contextmanager
def failed_buffer(client: Client, count: int) -> Iterator[Buffer]:
  """A buffer for `count` float32 on the first device, with an error of WORDS in it.

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
  try:
    buffer = Buffer(
        table,
        table.call(
            'AsyncHostToDeviceTransferManager_RetrieveBuffer',
            transfer_manager=manager).buffer_out)
    words = ctypes.create_string_buffer(WORDS.encode())
    table.call(
        'AsyncHostToDeviceTransferManager_SetBufferError',
        transfer_manager=manager,
        error_code=_RESOURCE_EXHAUSTED,
        error_message=ctypes.addressof(words),
        error_message_size=len(WORDS))
    try:
      yield buffer
    finally:
      buffer.destroy()
  finally:
    table.call(
        'AsyncHostToDeviceTransferManager_Destroy', transfer_manager=manager)
