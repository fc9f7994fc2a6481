"""A function of the host that a program calls, by XLA's FFI.

Offsets are those of PJRT's FFI extension, which has had register_handler since
its version 3, and of xla/ffi/api/c_api.h; both only grow at their ends.
"""

from __future__ import annotations

import ctypes

from .client import Client
from .graph import custom_call
from .buffer import destroy, floats
from .table import MissingError

# PJRT_FFI_Extension: how long it is, with register_handler at its end.
EXTENSION_SIZE = 48
# XLA_FFI_CallFrame.
FRAME_EXTENSION, FRAME_API, FRAME_STAGE = 8, 16, 32
STAGE_EXECUTE = 3
# XLA_FFI_Metadata_Extension: it asks for a handler's version, and for no call.
EXTENSION_TYPE, METADATA_TYPE, METADATA = 8, 1, 24
METADATA_VERSION = 24
# XLA_FFI_Api.
API_VERSION = 32

_TARGET = b'torch_xla_conformance_callback'
_COUNT = 8
_Handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


class RegisterHandlerArgs(ctypes.Structure):
  """PJRT_FFI_Register_Handler_Args, which has no extension_start."""
  _fields_ = [('struct_size', ctypes.c_size_t),
              ('target_name', ctypes.c_char_p),
              ('target_name_size', ctypes.c_size_t),
              ('handler', ctypes.c_void_p), ('platform_name', ctypes.c_char_p),
              ('platform_name_size', ctypes.c_size_t), ('traits', ctypes.c_int)]


def calls_back(client: Client, form: str) -> bool:
  """Tests whether a program calls a function of this process.

  The plugin keeps the function: once in a process.

  Raises:
    MissingError, PjrtError: the plugin has no FFI, or refuses the function or
      the program.
  """
  stages = []

  def called(frame: int) -> None:
    if not _tell_version(frame):
      stages.append(ctypes.c_int.from_address(frame + FRAME_STAGE).value)

  handler = _Handler(called)
  _register(client, handler)
  loaded = client.compile(
      custom_call(_TARGET.decode(), _COUNT).program(form, client.ids[:1]))
  given = client.put(floats(range(_COUNT)))
  (result,), = loaded.execute([[given]])
  destroy((given, result))
  loaded.destroy()
  return STAGE_EXECUTE in stages


def _register(client: Client, handler: ctypes._CFuncPtr) -> None:
  extension = client.table.extension('FFI')
  if not extension or _size(extension) < EXTENSION_SIZE:
    raise MissingError('the plugin has no PJRT_FFI_Register_Handler')
  platform = client.platform.encode()
  arguments = RegisterHandlerArgs(0, _TARGET, len(_TARGET),
                                  ctypes.cast(handler, ctypes.c_void_p),
                                  platform, len(platform), 0)
  arguments.struct_size = (
      RegisterHandlerArgs.traits.offset + RegisterHandlerArgs.traits.size)
  register = _size(extension + EXTENSION_SIZE - 8)
  client.table.call_at(register, arguments)


def _tell_version(frame: int) -> bool:
  """Says that a handler has the caller's version; False: nobody asks."""
  extension = _size(frame + FRAME_EXTENSION)
  if not extension or (ctypes.c_int.from_address(extension +
                                                 EXTENSION_TYPE).value
                       != METADATA_TYPE):
    return False
  version = ctypes.c_int * 2
  field = version.from_address(_size(extension + METADATA) + METADATA_VERSION)
  api = _size(frame + FRAME_API)
  # An XLA that hands over no API is as old as its first version with metadata.
  field[:] = version.from_address(api + API_VERSION)[:] if api else (0, 1)
  return True


def _size(address: int) -> int:
  """A size, or a pointer, that lies there."""
  return ctypes.c_size_t.from_address(address).value
