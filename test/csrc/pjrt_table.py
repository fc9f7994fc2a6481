"""A PJRT plugin's table through ctypes, as a framework in C calls it."""

from __future__ import annotations

import ctypes
from typing import Optional

INVALID_ARGUMENT = 3
PLUGIN_INITIALIZE, CLIENT_CREATE = 3, 10
CLIENT_COMPILE, LOADED_DESTROY, EXECUTE = 20, 50, 55
EXECUTABLE_DESTROY, OPTIMIZED_PROGRAM, GET_EXECUTABLE = 40, 48, 51
BUFFER_DESTROY, BUFFER_TO_HOST = 58, 70


class PjrtError(Exception):

  def __init__(self, code: int, message: str) -> None:
    super().__init__(code, message)
    self.code = code
    self.message = message


def words(*values: Optional[int]) -> ctypes.Array:
  """An argument struct of pointers and sizes, which begins with its size."""
  struct = (ctypes.c_size_t * (len(values) + 1))()
  struct[:] = [8 * (len(values) + 1), *(v or 0 for v in values)]
  return struct


def address(text: ctypes.Array) -> int:
  return ctypes.addressof(text)


class Plugin:
  """A PJRT table, called through its slots."""

  def __init__(self, table: int) -> None:
    size = ctypes.c_size_t.from_address(table).value
    self.slots = (ctypes.c_size_t * ((size - 40) // 8)).from_address(table + 40)

  def raw(self, slot: int, args: ctypes.Array) -> int:
    function = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p)(
        self.slots[slot])
    return function(ctypes.addressof(args))

  def call(self, slot: int, args: ctypes.Array) -> ctypes.Array:
    error = self.raw(slot, args)
    if not error:
      return args
    text = words(0, error, 0, 0)
    self.raw(1, text)
    code = words(0, error, 0)
    assert self.raw(2, code) == 0
    message = ctypes.string_at(text[3], text[4]).decode()
    self.raw(0, words(0, error))
    raise PjrtError(code[3] & 0xffffffff, message)

  def compile(self, client: int, code: bytes, options: bytes) -> int:
    """The loaded executable of a program in MLIR."""
    text = ctypes.create_string_buffer(code, len(code))
    kind = ctypes.create_string_buffer(b'mlir')
    chosen = ctypes.create_string_buffer(options, len(options))
    program = words(0, address(text), len(code), address(kind), 4)
    args = words(0, client, address(program), address(chosen), len(options), 0)
    return self.call(CLIENT_COMPILE, args)[6]

  def read(self, loaded: int) -> tuple[bytes, bytes]:
    """The program of a loaded executable and its format."""
    executable = self.call(GET_EXECUTABLE, words(0, loaded, 0))[3]
    try:
      program = words(0, 0, 0, 0, 0)
      args = words(0, executable, address(program))
      self.call(OPTIMIZED_PROGRAM, args)
      code = ctypes.create_string_buffer(program[3] or 1)
      program[2] = address(code)
      self.call(OPTIMIZED_PROGRAM, args)
      return code.raw[:program[3]], ctypes.string_at(program[4], program[5])
    finally:
      self.call(EXECUTABLE_DESTROY, words(0, executable))


def open_table(library: ctypes.CDLL) -> Plugin:
  library.GetPjrtApi.restype = ctypes.c_void_p
  return Plugin(library.GetPjrtApi())
