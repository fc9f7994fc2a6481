"""A PJRT table: a plugin's functions, called by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
import contextlib
import ctypes
import struct
from typing import Any, Optional

from . import structs

# Where things stand in a table: struct_size, extension_start, and of the version
# its struct_size, extension_start, major and minor; then the functions.
FIRST_EXTENSION, VERSION, FIRST_SLOT = 8, 32, 40
# PJRT_Extension_Type, by its number.
EXTENSIONS = ('Gpu_Custom_Call', 'Profiler', 'Custom_Partitioner', 'Stream',
              'Layouts', 'FFI', 'MemoryDescriptions', 'Triton', 'RawBuffer',
              'PhaseCompile', 'Example', 'Unknown', 'CrossHostTransfers',
              'ExecutableMetadata', 'Callback', 'HostAllocator', 'TpuTopology',
              'TpuExecutable', 'Megascale', 'Shardings', 'AbiVersion',
              'Collectives', 'MultiSlice', 'HostMemoryAllocator',
              'XlaTransform')
# What the loader says of a library that is not there.
_ABSENT = 'cannot open shared object file'
# Behind a struct that ends there.
_CANARY = b'\x5a' * 64
# Of any function.
CALL = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
CODES = ('OK', 'CANCELLED', 'UNKNOWN', 'INVALID_ARGUMENT', 'DEADLINE_EXCEEDED',
         'NOT_FOUND', 'ALREADY_EXISTS', 'PERMISSION_DENIED',
         'RESOURCE_EXHAUSTED', 'FAILED_PRECONDITION', 'ABORTED', 'OUT_OF_RANGE',
         'UNIMPLEMENTED', 'INTERNAL', 'UNAVAILABLE', 'DATA_LOSS',
         'UNAUTHENTICATED')


class PjrtError(Exception):
  """A status that a plugin gave.

  Attributes:
    code: its PJRT_Error_Code by name, or the number of one that is unknown.
    message: the plugin's words.
  """

  def __init__(self, code: str, message: str):
    super().__init__(f'{code}: {message}')
    self.code = code
    self.message = message


class LoadError(Exception):
  """A library that a plugin needs is not on this machine."""


class MissingError(Exception):
  """The plugin does not have a function."""


class Table:
  """The functions of a plugin.

  Attributes:
    version: (major, minor) of the API that it speaks.
  """

  def __init__(self, library: ctypes.CDLL):
    """Reads the table of a loaded library.

    Raises:
      PjrtError: it exports no GetPjrtApi, or that gives nothing.
    """
    try:
      library.GetPjrtApi.restype = ctypes.c_void_p
    except AttributeError:
      raise PjrtError('NOT_FOUND', 'the library does not export '
                      'GetPjrtApi') from None
    address = library.GetPjrtApi()
    if not address:
      raise PjrtError('INTERNAL', 'GetPjrtApi gives no table')
    size = ctypes.c_size_t.from_address(address).value
    if size < FIRST_SLOT:
      raise PjrtError('INTERNAL', f'a table of {size} bytes has no functions')
    self.version: tuple[int, int] = tuple(
        (ctypes.c_int * 2).from_address(address + VERSION))
    self._first_extension = ctypes.c_size_t.from_address(address +
                                                         FIRST_EXTENSION).value
    names = structs.functions() + structs.later_functions()
    count = min((size - FIRST_SLOT) // 8, len(names))
    functions = (ctypes.c_void_p * count).from_address(address + FIRST_SLOT)
    self._functions = dict(zip(names, functions))
    self._library = library
    self._guarded: Optional[dict[str, bool]] = None

  @classmethod
  def open(cls, path: str) -> Table:
    """Loads a plugin's library and initialises it.

    Raises:
      LoadError: a library is not there.
      PjrtError: it cannot be loaded otherwise, or is no plugin; or a plugin's
        own error.
    """
    try:
      library = ctypes.CDLL(path)
    except OSError as e:
      words = f'it cannot be loaded: {e}'
      if _ABSENT in words:
        raise LoadError(words) from None
      raise PjrtError('INVALID_ARGUMENT', words) from None
    table = cls(library)
    if table.has('Plugin_Initialize'):
      table.call('Plugin_Initialize')
    return table

  def has(self, name: str) -> bool:
    return bool(self._functions.get(name))

  @property
  def present(self) -> tuple[str, ...]:
    return tuple(name for name in structs.functions() if self.has(name))

  def call(self, name: str, /, **values: object) -> Any:
    """Calls a function; its arguments' struct, filled by the plugin.

    The arguments are as in `structs.make`.

    Raises:
      MissingError: the plugin has no such function.
      PjrtError: the status that it gave.
    """
    arguments = structs.make(name, **values)
    self.call_with(name, arguments)
    return arguments

  def call_with(self, name: str, arguments: ctypes.Structure) -> None:
    """Calls a function as `call` does, with a struct of the caller's."""
    address = self.address_of(name)
    if self._guarded is not None:
      self._call_guarded(name, arguments, self._guarded)
    elif error := CALL(address)(ctypes.addressof(arguments)):
      raise self.error_of(error)

  @contextlib.contextmanager
  def guarded(self) -> Iterator[dict[str, bool]]:
    """Makes the calls of the block with structs that end at their last field.

    By the names of the functions that were called, whether one wrote behind it.
    """
    self._guarded = {}
    try:
      yield self._guarded
    finally:
      self._guarded = None

  def _call_guarded(self, name: str, arguments: ctypes.Structure,
                    written: dict[str, bool]) -> None:
    size = structs.size_of(type(arguments))
    memory = (ctypes.c_char * (size + len(_CANARY)))()
    ctypes.memmove(memory, ctypes.addressof(arguments), size)
    memory[size:] = _CANARY
    guarded = ctypes.c_size_t.from_buffer(memory)
    guarded.value = size
    try:
      error = CALL(self._functions[name])(ctypes.addressof(memory))
    finally:
      guarded.value = arguments.struct_size
      ctypes.memmove(ctypes.addressof(arguments), memory, size)
      written[name] = written.get(name, False) or memory[size:] != _CANARY
    if error:
      raise self.error_of(error)

  def address_of(self, name: str) -> int:
    """Where a function is.

    Raises:
      MissingError: the plugin has no such function.
    """
    if not self.has(name):
      raise MissingError(f'the plugin has no PJRT_{name}')
    return self._functions[name]

  def extensions(self) -> tuple[str, ...]:
    """The names of the table's extensions, or numbers where none is known."""
    names = []
    address = self._first_extension
    while address:
      # struct_size, type, next.
      _, kind, following = (ctypes.c_size_t * 3).from_address(address)
      kind &= 0xffffffff
      known = kind < len(EXTENSIONS)
      names.append(EXTENSIONS[kind] if known else str(kind))
      address = following
    return tuple(names)

  def error_of(self, error: int) -> PjrtError:
    """The status at an address, which is destroyed."""

    def ask(name: str) -> Any:
      answer = structs.make(name, error=error)
      CALL(self._functions[name])(ctypes.addressof(answer))
      return answer

    try:
      answer, code = ask('Error_Message'), ask('Error_GetCode').code
      return PjrtError(CODES[code] if 0 <= code < len(CODES) else str(code),
                       text(answer.message, answer.message_size))
    finally:
      ask('Error_Destroy')

  def await_event(self, event: int) -> None:
    """Waits for an event, and destroys it.

    Raises:
      PjrtError: what was waited for has failed.
    """
    if not event:
      return
    try:
      self.call('Event_Await', event=event)
    finally:
      self.call('Event_Destroy', event=event)

  def attributes(self) -> dict[str, Any]:
    """The plugin's attributes; empty where it has none."""
    if not self.has('Plugin_Attributes'):
      return {}
    answer = self.call('Plugin_Attributes')
    return read_values(answer.attributes, answer.num_attributes)


def text(address: int, size: int) -> str:
  """A string that a plugin holds."""
  return ctypes.string_at(address, size).decode(
      errors='replace') if size else ''


def pointers(address: int, count: int) -> list[int]:
  return list((ctypes.c_void_p * count).from_address(address)) if count else []


def read_values(address: int, count: int) -> dict[str, Any]:
  """An array of PJRT_NamedValue."""
  kind = structs.struct('NamedValue')
  values = {}
  for position in range(count):
    # A newer plugin's may be longer: the first says how long.
    size = ctypes.c_size_t.from_address(address).value or ctypes.sizeof(kind)
    entry = kind.from_address(address + position * size)
    values[text(entry.name, entry.name_size)] = _value(entry)
  return values


def _value(entry: Any) -> Any:
  where = ctypes.addressof(entry) + type(entry).int64_value.offset
  if entry.type == 0:
    return text(entry.int64_value, entry.value_size)
  if entry.type == 1:
    return entry.int64_value
  if entry.type == 2:
    return tuple(
        (ctypes.c_int64 * entry.value_size).from_address(entry.int64_value))
  if entry.type == 3:
    return ctypes.c_float.from_address(where).value
  return ctypes.c_bool.from_address(where).value


def named_values(options: Mapping[str, Any]) -> Any:
  """An array of PJRT_NamedValue."""
  entries = []
  for name, value in options.items():
    kind, size, held = 1, 1, value
    if isinstance(value, bool):
      kind = 4
    elif isinstance(value, float):
      kind, held = 3, int.from_bytes(struct.pack('<f', value), 'little')
    elif isinstance(value, (str, tuple, list)):
      held = value.encode() if isinstance(value, str) else value
      kind, size = 0 if isinstance(value, str) else 2, len(held)
    entries.append(
        structs.make(
            'NamedValue',
            name=name.encode(),
            type=kind,
            int64_value=held,
            value_size=size))
  array: Any = (structs.struct('NamedValue') * len(entries))(*entries)
  array.held = entries
  return array
