"""PJRT's buffers, as jax's arrays on one device."""

from __future__ import annotations

import ctypes
from typing import Any

from answered_table import AnsweredTable, Handles
from jaxlib_devices import Devices
import ml_dtypes
import numpy as np
from torch_xla_conformance.pjrt import host_array

_TYPES = {
    host_array.TYPES[name][0]: np.dtype(kind) for name, kind in {
        'PRED': np.bool_,
        'S32': np.int32,
        'S64': np.int64,
        'F32': np.float32,
        'BF16': ml_dtypes.bfloat16,
    }.items()
}
NUMBERS = {kind: number for number, kind in _TYPES.items()}


class Buffer:
  """An array, and the device that holds it; the array goes, the rest stays."""

  def __init__(self, array: Any, device: Any):
    self.array, self.device = array, device
    self.dims, self.kind = tuple(array.shape), np.dtype(array.dtype)
    self.size: int = array.nbytes


class Buffers:
  """Their functions."""

  def __init__(self, handles: Handles, devices: Devices):
    self._handles = handles
    self._devices = devices

  def Client_BufferFromHostBuffer(self, args: Any) -> dict[str, int]:
    import jax
    dims = _numbers(args.dims, args.num_dims)
    kind = _TYPES[args.type]
    strides = _numbers(args.byte_strides, args.num_byte_strides) or None
    values = np.empty(dims, kind)
    if values.size:
      size = values.nbytes if strides is None else kind.itemsize + sum(
          stride * (n - 1) for stride, n in zip(strides, dims, strict=True))
      memory = (ctypes.c_char * size).from_address(args.data)
      values[...] = np.ndarray(dims, kind, memory, strides=strides)
    device = self._handles[args.memory or args.device]
    return {
        'buffer':
            self._handles.hold(Buffer(jax.device_put(values, device), device)),
        'done_with_host_buffer':
            AnsweredTable.EVENT
    }

  def Buffer_ToHostBuffer(self, args: Any) -> dict[str, int]:
    buffer = self._handles[args.src]
    if not args.dst:
      return {'dst_size': buffer.size}
    data = np.asarray(buffer.array).tobytes()
    ctypes.memmove(args.dst, data, len(data))
    return {'event': AnsweredTable.EVENT}

  def Buffer_Destroy(self, args: Any) -> None:
    self._handles.drop(args.buffer)

  def Buffer_Delete(self, args: Any) -> None:
    self._handles[args.buffer].array = None

  def Buffer_IsDeleted(self, args: Any) -> dict[str, bool]:
    array = self._handles[args.buffer].array
    return {'is_deleted': array is None or array.is_deleted()}

  def Buffer_ElementType(self, args: Any) -> dict[str, int]:
    return {'type': NUMBERS[self._handles[args.buffer].kind]}

  def Buffer_Dimensions(self, args: Any) -> dict[str, int]:
    dims = self._handles[args.buffer].dims
    return {
        'dims': self._handles.array(ctypes.c_int64, dims),
        'num_dims': len(dims)
    }

  def Buffer_UnpaddedDimensions(self, args: Any) -> dict[str, int]:
    told = self.Buffer_Dimensions(args)
    return {'unpadded_dims': told['dims'], 'num_dims': told['num_dims']}

  def Buffer_DynamicDimensionIndices(self, args: Any) -> dict[str, int]:
    return {'num_dynamic_dims': 0}

  def Buffer_GetMemoryLayout(self, args: Any) -> None:
    rank = len(self._handles[args.buffer].dims)
    args.layout.type = args.layout.tiled.num_tiles = 0
    args.layout.tiled.minor_to_major_size = rank
    args.layout.tiled.minor_to_major = self._handles.array(
        ctypes.c_int64, reversed(range(rank)))

  def Buffer_OnDeviceSizeInBytes(self, args: Any) -> dict[str, int]:
    return {'on_device_size_in_bytes': self._handles[args.buffer].size}

  def Buffer_Device(self, args: Any) -> dict[str, int]:
    device = self._handles[args.buffer].device
    return {'device': self._devices.handle(device)}

  def Buffer_Memory(self, args: Any) -> dict[str, int]:
    device = self._handles[args.buffer].device
    return {'memory': self._devices.memory(device)}

  def Buffer_IsOnCpu(self, args: Any) -> dict[str, bool]:
    return {'is_on_cpu': True}

  def Buffer_ReadyEvent(self, args: Any) -> dict[str, int]:
    return {'event': AnsweredTable.EVENT}


def _numbers(address: int, count: int) -> tuple[int, ...]:
  return tuple((ctypes.c_int64 * count).from_address(address)) if count else ()
