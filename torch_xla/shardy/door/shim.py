"""Python's side of libpjrt_shardy.so, the plugin that wraps a plugin.

The library stands between the runtime and the backend's PJRT plugin and hands
every program that is about to be compiled to the compiler registered here.
The C side is documented in csrc/pjrt_shardy/pjrt_shardy.h.
"""

from __future__ import annotations

from collections.abc import Callable
import contextlib
import ctypes
import dataclasses
import functools
import logging
import os
from typing import Any, Optional

from ..errors import BackendCompileError, DoorError
from .memory import Memory

logger = logging.getLogger(__name__)

LIBRARY_PATH = os.path.join(
    os.path.dirname(os.path.dirname(__file__)), 'libpjrt_shardy.so')
_VERSION = 7
_MESSAGE_SIZE = 4096
# Values of PJRT_Error_Code.
_INVALID_ARGUMENT, _NOT_FOUND, _FAILED_PRECONDITION, _INTERNAL = 3, 5, 9, 13

_ATTRIBUTE_REASONS = {
    _INVALID_ARGUMENT: 'it is no integer and no list of integers',
    _FAILED_PRECONDITION: 'no plugin is open yet',
}


class _Memory(ctypes.Structure):
  _fields_ = [
      ('struct_size', ctypes.c_size_t),
      *((field.name, ctypes.c_int64) for field in dataclasses.fields(Memory))
  ]


class _CompileRequest(ctypes.Structure):
  _fields_ = [
      ('struct_size', ctypes.c_size_t),
      ('program', ctypes.c_void_p),
      ('program_size', ctypes.c_size_t),
      ('format', ctypes.c_void_p),
      ('format_size', ctypes.c_size_t),
      ('options', ctypes.c_void_p),
      ('options_size', ctypes.c_size_t),
  ]


_CompileCallback = ctypes.CFUNCTYPE(None, ctypes.c_void_p,
                                    ctypes.POINTER(_CompileRequest),
                                    ctypes.c_void_p)

_int, _handle, _size, _id = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t,
                             ctypes.c_uint64)
_sized = ctypes.c_char_p, _size
_to_int64, _to_size, _to_memory = map(ctypes.POINTER,
                                      (ctypes.c_int64, _size, _Memory))
_to_sized = ctypes.POINTER(_handle), _to_size
# For each function of the library: what it gives, and what it takes.
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    'Open': (_int, ctypes.c_char_p, *_sized),
    'LeaveFirstThread': (None, _handle),
    'SetCompileCallback': (None, _handle, _handle),
    'PluginAttribute': (_int, ctypes.c_char_p, _to_int64, _size, _to_size),
    'DeviceKind': (_int, *_sized, _to_size),
    'CompileProgram': (_int, _handle, *_sized, *_sized, *_sized),
    'CompileMessage': (_handle, _handle, _to_size),
    'CompiledProgram': (_int, _handle, *_to_sized, *_to_sized),
    'CompiledMemory': (_int, _handle, _to_memory),
    'SerializedExecutable': (_int, _handle, *_to_sized),
    'LoadExecutable': (_int, _handle, *_sized),
    'ReuseExecutable': (_int, _handle, _id),
    'KeepExecutable': (None, _handle, _id),
    'SetOptimizedProgram': (None, _handle, *_sized, *_sized),
    'Fail': (None, _handle, _int, *_sized),
}


@functools.lru_cache(maxsize=None)
def _library() -> ctypes.CDLL:
  """The loaded shim."""
  try:
    library = ctypes.CDLL(LIBRARY_PATH)
  except OSError as e:
    raise DoorError(f'cannot load the PJRT shim: {e}; it is part of the wheel, '
                    'so install torch_xla again') from e
  version = library.PjrtShardy_Version()
  if version != _VERSION:
    raise DoorError(f'the PJRT shim speaks version {version}, this package '
                    f'version {_VERSION}; install torch_xla again')
  for name, (result, *arguments) in _FUNCTIONS.items():
    function = getattr(library, f'PjrtShardy_{name}')
    function.restype, function.argtypes = result, arguments
  # Python handles signals on its first thread only. There Ctrl-C would be the
  # end of a callback, and an error of XLA's to the user.
  library.PjrtShardy_LeaveFirstThread(
      ctypes.cast(ctypes.pythonapi.PyGILState_Check, ctypes.c_void_p))
  return library


class Compilation:
  """One program that the runtime wants compiled.

  Only valid while the compiler that it was handed to runs.

  Attributes:
    program: the serialised program as the runtime sent it.
    format: 'hlo' (an HloModuleProto) or 'mlir' (StableHLO).
    options: the serialised CompileOptionsProto as the runtime sent it.
  """

  def __init__(self, handle: int, request: _CompileRequest):
    self._handle = handle
    self.program = ctypes.string_at(request.program, request.program_size)
    self.format = ctypes.string_at(request.format, request.format_size).decode()
    self.options = ctypes.string_at(request.options, request.options_size)

  def compile(self,
              program: bytes,
              options: bytes,
              program_format: Optional[str] = None) -> None:
    """Compiles `program` by the backend; the last call's result counts.

    Args:
      program: serialised.
      options: a serialised CompileOptionsProto.
      program_format: of `program`, where it is not `format`.

    Raises:
      BackendCompileError: the backend refused. If it is the last result, the
        runtime gets the backend's own error, whether this is caught or not.
    """
    library = _library()
    form = (program_format or self.format).encode()
    code = library.PjrtShardy_CompileProgram(self._handle,
                                             program, len(program), form,
                                             len(form), options, len(options))
    self._check(code)

  def compiled_program(self) -> tuple[bytes, str]:
    """The last result of `compile`, and its format, as 'hlo_with_config'.

    Raises:
      BackendCompileError: nothing was compiled, or the backend reports none.
    """
    program, form = self._read(_library().PjrtShardy_CompiledProgram, 2)
    return program, form.decode()

  def memory(self) -> Optional[Memory]:
    """The memory of the last result; None if the backend does not report it."""
    info = _Memory(ctypes.sizeof(_Memory))
    if _library().PjrtShardy_CompiledMemory(self._handle, ctypes.byref(info)):
      return None
    return Memory(*(getattr(info, f.name) for f in dataclasses.fields(Memory)))

  def serialized_executable(self) -> bytes:
    """The last result of `compile` or `load`, in the backend's own form.

    Raises:
      BackendCompileError: nothing was compiled, or the backend cannot.
    """
    data, = self._read(_library().PjrtShardy_SerializedExecutable, 1)
    return data

  def load(self, serialized: bytes) -> None:
    """Loads what `serialized_executable` gave, in place of `compile`.

    Backends trust these bytes: damaged ones may end the process.

    Raises:
      BackendCompileError: the backend refused. As after `compile`, that is the
        last result: compile to make up for it.
    """
    self._check(_library().PjrtShardy_LoadExecutable(self._handle, serialized,
                                                     len(serialized)))

  def reuse(self, number: int) -> bool:
    """Takes the executable cached under this number, in place of `compile`.

    Returns:
      Whether there was one that the runtime has dropped; else compile.
    """
    return not _library().PjrtShardy_ReuseExecutable(self._handle, number)

  def keep(self, number: int) -> None:
    """Caches the last result under this number once the runtime drops it.

    Only for small programs. `number`, above 0, stands for one program and its
    options. Another result undoes it.
    """
    _library().PjrtShardy_KeepExecutable(self._handle, number)

  def set_optimized_program(self, program: bytes, program_format: str) -> None:
    """Sets the program that the runtime reads from the last result.

    It replaces the backend's report of the compiled program;
    `compiled_program` does not return it. Another `compile` or `load` undoes
    it.
    """
    form = program_format.encode()
    _library().PjrtShardy_SetOptimizedProgram(self._handle, program,
                                              len(program), form, len(form))

  def _read(self, function: Callable[..., int], count: int) -> list[bytes]:
    """The strings that a function lends out."""
    pairs = [(ctypes.c_void_p(), ctypes.c_size_t()) for _ in range(count)]
    self._check(
        function(self._handle,
                 *(ctypes.byref(part) for pair in pairs for part in pair)))
    return [ctypes.string_at(data, size.value) for data, size in pairs]

  def _check(self, code: int) -> None:
    if code:
      size = ctypes.c_size_t()
      message = _library().PjrtShardy_CompileMessage(self._handle,
                                                     ctypes.byref(size))
      raise BackendCompileError(
          code,
          ctypes.string_at(message, size.value).decode(errors='replace'))


Compiler = Callable[[Compilation], None]

# Holds the C callbacks that the shim may call: each must outlive its
# registration, and a call may still be in flight when it is replaced.
_callbacks = []
_opened = False


def set_compiler(compiler: Optional[Compiler]) -> None:
  """Registers the compiler of programs; None passes programs through.

  An exception out of `compiler` becomes the error of that compile, with the
  exception's text; a BackendCompileError leaves the backend's error in place.

  Raises:
    DoorError: the shim cannot be loaded.
  """

  def on_compile(handle, request, _):
    # Nothing may leave a ctypes callback: it would be printed and lost.
    try:
      with contextlib.suppress(BackendCompileError):
        compiler(Compilation(handle, request.contents))
    except BaseException as e:  # pylint: disable=broad-except
      logger.debug('the compile callback failed', exc_info=True)
      data = (f'torch_xla.shardy could not compile: {type(e).__name__}: {e}'
             ).encode()
      _library().PjrtShardy_Fail(handle, _INTERNAL, data, len(data))

  callback = compiler and _CompileCallback(on_compile)
  _callbacks.append(callback)
  _library().PjrtShardy_SetCompileCallback(callback, None)


def is_open() -> bool:
  """Tests whether a backend's plugin was opened through the door."""
  return _opened


def open_inner(library_path: str) -> None:
  """Opens the backend's plugin, which the shim then stands before."""
  global _opened
  message = ctypes.create_string_buffer(_MESSAGE_SIZE)
  code = _library().PjrtShardy_Open(
      os.fsencode(library_path), message, _MESSAGE_SIZE)
  if code:
    raise DoorError(message.value.decode(errors='replace'))
  _opened = True


def plugin_attribute(name: str) -> Optional[tuple[int, ...]]:
  """The integers that the backend's plugin gives as its attribute `name`.

  Call it once the runtime is up: plugins may tell nothing before that. None if
  the plugin has no such attribute, or has none at all.
  """
  capacity = 8
  while True:
    values, count = (ctypes.c_int64 * capacity)(), ctypes.c_size_t()
    code = _library().PjrtShardy_PluginAttribute(name.encode(), values,
                                                 capacity, ctypes.byref(count))
    if code == _NOT_FOUND:
      return None
    if code:
      raise DoorError(
          f'the attribute {name} of the PJRT plugin cannot be read: '
          f'{_ATTRIBUTE_REASONS.get(code) or f"PJRT error code {code}"}')
    if count.value <= capacity:
      return tuple(values[:count.value])
    capacity = count.value


def device_kind() -> str:
  """The plugin's name for the kind of this process's first device."""
  kind = ctypes.create_string_buffer(_MESSAGE_SIZE)
  size = ctypes.c_size_t()
  code = _library().PjrtShardy_DeviceKind(kind, _MESSAGE_SIZE,
                                          ctypes.byref(size))
  if code:
    raise DoorError('the kind of the devices cannot be told: ' +
                    ('the runtime is not up' if code ==
                     _FAILED_PRECONDITION else f'PJRT error code {code}'))
  return kind.raw[:size.value].decode(errors='replace')
