"""A PJRT plugin's table through ctypes, as a framework in C calls it."""

from __future__ import annotations

import ctypes
from typing import Optional

INVALID_ARGUMENT = 3
PLUGIN_INITIALIZE, CLIENT_CREATE, CLIENT_DESTROY = 3, 10, 11
ADDRESSABLE_DEVICES = 16
CLIENT_COMPILE, LOADED_DESTROY, EXECUTE = 20, 50, 55
EXECUTABLE_DESTROY, OPTIMIZED_PROGRAM, GET_EXECUTABLE = 40, 48, 51
EVENT_DESTROY, EVENT_AWAIT, BUFFER_DESTROY, BUFFER_TO_HOST = 5, 8, 58, 70
# CompileOptionsProto: executable_build_options of one replica and partition.
ONE_DEVICE = bytes([0x1a, 4, 0x20, 1, 0x28, 1])


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
    self.size = ctypes.c_size_t.from_address(table).value
    self.version = tuple((ctypes.c_int * 2).from_address(table + 32))
    self.extensions = ctypes.c_size_t.from_address(table + 8).value
    self.slots = (ctypes.c_size_t *
                  ((self.size - 40) // 8)).from_address(table + 40)

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

  def create_client(self, devices: int) -> int:
    """A client of XLA's CPU plugin."""
    name = ctypes.create_string_buffer(b'cpu_device_count')
    # One PJRT_NamedValue, an integer.
    option = words(0, address(name), 16, 1, devices, 1)
    args = words(0, address(option), 1, 0, 0, 0, 0, 0, 0, 0)
    return self.call(CLIENT_CREATE, args)[8]

  def compile(self,
              client: int,
              code: bytes,
              form: bytes = b'mlir',
              options: bytes = ONE_DEVICE) -> int:
    """The loaded executable."""
    text = ctypes.create_string_buffer(code, len(code))
    kind = ctypes.create_string_buffer(form, len(form))
    chosen = ctypes.create_string_buffer(options, len(options))
    program = words(0, address(text), len(code), address(kind), len(form))
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

  def run(self, executable: int, options_words: int) -> list[float]:
    """Executes with options of that many words; the two floats it returns."""
    options = words(*[0] * (options_words - 1))
    outputs = (ctypes.c_size_t * 1)()
    output_lists = (ctypes.c_size_t * 1)(address(outputs))
    no_arguments = (ctypes.c_size_t * 1)()
    argument_lists = (ctypes.c_size_t * 1)(address(no_arguments))
    self.call(
        EXECUTE,
        words(0, executable, address(options), address(argument_lists), 1, 0,
              address(output_lists), 0, 0))
    values = (ctypes.c_float * 2)()
    copied = self.call(BUFFER_TO_HOST,
                       words(0, outputs[0], 0, address(values), 8, 0))
    self.call(EVENT_AWAIT, words(0, copied[6]))
    self.call(EVENT_DESTROY, words(0, copied[6]))
    self.call(BUFFER_DESTROY, words(0, outputs[0]))
    return list(values)


def open_table(library: ctypes.CDLL) -> Plugin:
  library.GetPjrtApi.restype = ctypes.c_void_p
  return Plugin(library.GetPjrtApi())
