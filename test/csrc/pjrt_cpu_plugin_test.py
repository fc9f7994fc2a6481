"""The shim before XLA's CPU plugin, through ctypes as Python uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import ctypes
import importlib.util
import os
from pathlib import Path
from typing import Optional

import pytest
from shim_build import Build

# The plugin stays loaded and runs threads: a process of its own. Nothing here
# looks at these variables: with those of other tests, their server serves.
ENVIRONMENT = {'PJRT_DEVICE': 'CPU', 'CPU_NUM_DEVICES': '8'}

INVALID_ARGUMENT = 3
PLUGIN_INITIALIZE, CLIENT_CREATE, CLIENT_DESTROY = 3, 10, 11
CLIENT_COMPILE, LOADED_DESTROY, EXECUTE = 20, 50, 55
EXECUTABLE_DESTROY, OPTIMIZED_PROGRAM, GET_EXECUTABLE = 40, 48, 51
EVENT_DESTROY, EVENT_AWAIT, BUFFER_DESTROY, BUFFER_TO_HOST = 5, 8, 58, 70

PROGRAM = b'''module @constant {
  func.func @main() -> tensor<2xf32> {
    %0 = stablehlo.constant dense<[1.5, 2.5]> : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}'''
# CompileOptionsProto: executable_build_options of one replica and partition.
OPTIONS = bytes([0x1a, 4, 0x20, 1, 0x28, 1])

_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p,
                             ctypes.c_void_p)
_READBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p,
                             ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t,
                             ctypes.c_void_p)


class Request(ctypes.Structure):
  _fields_ = [('struct_size', ctypes.c_size_t), ('program', ctypes.c_void_p),
              ('program_size', ctypes.c_size_t), ('format', ctypes.c_void_p),
              ('format_size', ctypes.c_size_t), ('options', ctypes.c_void_p),
              ('options_size', ctypes.c_size_t)]


class PjrtError(Exception):

  def __init__(self, code: int, message: str) -> None:
    super().__init__(code, message)
    self.code = code
    self.message = message


def _words(*values: Optional[int]) -> ctypes.Array:
  """An argument struct of pointers and sizes, which begins with its size."""
  words = (ctypes.c_size_t * (len(values) + 1))()
  words[:] = [8 * (len(values) + 1), *(v or 0 for v in values)]
  return words


def _address(text: ctypes.Array) -> int:
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
    text = _words(0, error, 0, 0)
    self.raw(1, text)
    code = _words(0, error, 0)
    assert self.raw(2, code) == 0
    message = ctypes.string_at(text[3], text[4]).decode()
    self.raw(0, _words(0, error))
    raise PjrtError(code[3] & 0xffffffff, message)

  def compile(self, client: int, code: bytes) -> int:
    text = ctypes.create_string_buffer(code, len(code))
    kind = ctypes.create_string_buffer(b'mlir', 4)
    options = ctypes.create_string_buffer(OPTIONS, len(OPTIONS))
    program = _words(0, _address(text), len(code), _address(kind), 4)
    args = _words(0, client, _address(program), _address(options), len(OPTIONS),
                  0)
    return self.call(CLIENT_COMPILE, args)[6]

  def read(self, loaded: int) -> tuple[bytes, bytes]:
    """The program of a loaded executable and its format."""
    executable = self.call(GET_EXECUTABLE, _words(0, loaded, 0))[3]
    try:
      program = _words(0, 0, 0, 0, 0)
      args = _words(0, executable, _address(program))
      self.call(OPTIMIZED_PROGRAM, args)
      code = ctypes.create_string_buffer(program[3] or 1)
      program[2] = _address(code)
      self.call(OPTIMIZED_PROGRAM, args)
      return code.raw[:program[3]], ctypes.string_at(program[4], program[5])
    finally:
      self.call(EXECUTABLE_DESTROY, _words(0, executable))

  def run(self, executable: int, options_words: int) -> list[float]:
    """Executes with options of that many words; the two floats it returns."""
    options = _words(*[0] * (options_words - 1))
    outputs = (ctypes.c_size_t * 1)()
    output_lists = (ctypes.c_size_t * 1)(_address(outputs))
    no_arguments = (ctypes.c_size_t * 1)()
    argument_lists = (ctypes.c_size_t * 1)(_address(no_arguments))
    self.call(
        EXECUTE,
        _words(0, executable, _address(options), _address(argument_lists), 1, 0,
               _address(output_lists), 0, 0))
    values = (ctypes.c_float * 2)()
    copied = self.call(BUFFER_TO_HOST,
                       _words(0, outputs[0], 0, _address(values), 8, 0))
    self.call(EVENT_AWAIT, _words(0, copied[6]))
    self.call(EVENT_DESTROY, _words(0, copied[6]))
    self.call(BUFFER_DESTROY, _words(0, outputs[0]))
    return list(values)


@pytest.fixture(scope='module')
def inner_path() -> str:
  try:
    spec = importlib.util.find_spec('xla_plugins.xla_cpu_pjrt')
  except ModuleNotFoundError:
    spec = None
  if spec is None:
    pytest.skip('xla-cpu-pjrt, the plugin that this wraps, is not installed')
  path = Path(spec.submodule_search_locations[0]) / 'xla_cpu_pjrt.so'
  assert path.is_file()
  return str(path)


@pytest.fixture(scope='module')
def shim(build: Build, inner_path: str) -> ctypes.CDLL:
  library = ctypes.CDLL(str(build.library))
  library.PjrtShardy_CompileMessage.restype = ctypes.c_char_p
  message = ctypes.create_string_buffer(1000)
  code = library.PjrtShardy_Open(
      os.fsencode(inner_path), message, ctypes.c_size_t(1000))
  assert (code, message.value) == (0, b'')
  return library


def _plugin(library: ctypes.CDLL) -> Plugin:
  library.GetPjrtApi.restype = ctypes.c_void_p
  return Plugin(library.GetPjrtApi())


@pytest.fixture(scope='module')
def plugin(shim: ctypes.CDLL) -> Plugin:
  plugin = _plugin(shim)
  plugin.call(PLUGIN_INITIALIZE, _words(0))
  return plugin


@pytest.fixture(scope='module')
def inner(inner_path: str, plugin: Plugin) -> Plugin:
  return _plugin(ctypes.CDLL(inner_path))


@pytest.fixture(scope='module')
def client(plugin: Plugin) -> Iterator[int]:
  name = ctypes.create_string_buffer(b'cpu_device_count')
  # One PJRT_NamedValue, an integer.
  option = _words(0, _address(name), 16, 1, 1, 1)
  args = _words(0, _address(option), 1, 0, 0, 0, 0, 0, 0, 0)
  client = plugin.call(CLIENT_CREATE, args)[8]
  yield client
  plugin.call(CLIENT_DESTROY, _words(0, client))


# An exception in the callback is only printed by ctypes: what it saw is checked
# by the test after it.
def _with_callback(shim: ctypes.CDLL,
                   callback: Callable[[ctypes.c_void_p, Request], None],
                   act: Callable[[], object]) -> object:

  def body(compilation: int, request: int, _: int) -> None:
    callback(ctypes.c_void_p(compilation), Request.from_address(request))

  function = _CALLBACK(body)
  shim.PjrtShardy_SetCompileCallback(function, None)
  try:
    return act()
  finally:
    shim.PjrtShardy_SetCompileCallback(None, None)


def _compile(shim: ctypes.CDLL, compilation: ctypes.c_void_p, program: bytes,
             request: Request) -> int:
  return shim.PjrtShardy_CompileProgram(compilation, program,
                                        ctypes.c_size_t(len(program)),
                                        ctypes.c_void_p(request.options),
                                        ctypes.c_size_t(request.options_size))


def test_table_is_the_plugins_own(plugin: Plugin, inner: Plugin) -> None:
  assert (plugin.size, plugin.version,
          plugin.extensions) == (inner.size, inner.version, inner.extensions)
  changed = [
      i for i, (a, b) in enumerate(zip(plugin.slots, inner.slots)) if a != b
  ]
  assert set(changed) - {132} == {
      0, 1, 2, CLIENT_COMPILE, OPTIMIZED_PROGRAM, EXECUTE
  }


def test_inner_error_comes_through(plugin: Plugin) -> None:
  # The plugin checks the size of the struct itself.
  args = (ctypes.c_size_t * 16)(8)
  with pytest.raises(PjrtError) as caught:
    plugin.call(CLIENT_CREATE, args)
  assert caught.value.code == INVALID_ARGUMENT
  assert 'PJRT_Client_Create_Args' in caught.value.message


def test_program_runs(plugin: Plugin, inner: Plugin, client: int) -> None:
  executable = plugin.compile(client, PROGRAM)
  # The options of a framework as old as torch_xla 2.9, and of a newer one.
  with pytest.raises(PjrtError, match='PJRT_ExecuteOptions'):
    inner.run(executable, 10)
  for words in (9, 10, 11, 14, 15, 40):
    assert plugin.run(executable, words) == [1.5, 2.5]
  plugin.call(LOADED_DESTROY, _words(0, executable))


def test_callback_replaces_the_program(shim: ctypes.CDLL, plugin: Plugin,
                                       client: int) -> None:
  seen: list[tuple[bytes, bytes, bytes]] = []
  results: list[tuple[int, bytes, bool]] = []

  def callback(compilation: ctypes.c_void_p, request: Request) -> None:
    program = ctypes.string_at(request.program, request.program_size)
    seen.append((program, ctypes.string_at(request.format, request.format_size),
                 ctypes.string_at(request.options, request.options_size)))
    _compile(shim, compilation, program.replace(b'2.5', b'7.5'), request)
    out = [
        ctypes.c_void_p(),
        ctypes.c_size_t(),
        ctypes.c_void_p(),
        ctypes.c_size_t()
    ]
    code = shim.PjrtShardy_CompiledProgram(compilation, *map(ctypes.byref, out))
    program, size, kind, kind_size = (o.value for o in out)
    results.append((code, ctypes.string_at(kind, kind_size), b'constant'
                    in ctypes.string_at(program, size)))

  executable = _with_callback(shim, callback,
                              lambda: plugin.compile(client, PROGRAM))
  assert seen == [(PROGRAM, b'mlir', OPTIONS)]
  assert results == [(0, b'hlo_with_config', True)]
  assert plugin.run(executable, 10) == [1.5, 7.5]
  plugin.call(LOADED_DESTROY, _words(0, executable))


def test_garbage_is_the_plugins_error(shim: ctypes.CDLL, plugin: Plugin,
                                      client: int) -> None:
  told: list[tuple[int, bytes]] = []

  def callback(compilation: ctypes.c_void_p, request: Request) -> None:
    code = _compile(shim, compilation, b'\x00garbage', request)
    told.append((code, shim.PjrtShardy_CompileMessage(compilation, None)))

  with pytest.raises(PjrtError) as caught:
    _with_callback(shim, callback, lambda: plugin.compile(client, PROGRAM))
  assert told == [(caught.value.code, caught.value.message.encode())]
  assert caught.value.message
  with pytest.raises(PjrtError) as straight:
    plugin.compile(client, b'\x00garbage')
  assert straight.value.code == caught.value.code


def test_callback_fails_the_compile(shim: ctypes.CDLL, plugin: Plugin,
                                    client: int) -> None:

  def callback(compilation: ctypes.c_void_p, request: Request) -> None:
    _compile(shim, compilation, PROGRAM, request)
    text = 'ValueError: no such axis'.encode()
    shim.PjrtShardy_Fail(compilation, INVALID_ARGUMENT, text,
                         ctypes.c_size_t(len(text)))

  with pytest.raises(PjrtError) as caught:
    _with_callback(shim, callback, lambda: plugin.compile(client, PROGRAM))
  assert caught.value.args == (INVALID_ARGUMENT, 'ValueError: no such axis')


class Rewrite:
  """A readback callback that replaces the program; notes what it saw."""

  def __init__(self, shim: ctypes.CDLL, rewrite: Callable[[bytes],
                                                          bytes]) -> None:
    self.seen: list[tuple[bytes, bytes]] = []

    def body(readback: int, program: int, program_size: int, kind: int,
             kind_size: int, _: int) -> None:
      old = ctypes.string_at(program, program_size)
      self.seen.append((old, ctypes.string_at(kind, kind_size)))
      new = rewrite(old)
      shim.PjrtShardy_ReplaceProgram(
          ctypes.c_void_p(readback), new, ctypes.c_size_t(len(new)))

    self.function = _READBACK(body)


def _unordered(reading: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
  """XLA serializes maps in another order each time."""
  program, kind = reading
  return bytes(sorted(program)), kind


@pytest.fixture
def executable(plugin: Plugin, client: int) -> Iterator[int]:
  executable = plugin.compile(client, PROGRAM)
  yield executable
  plugin.call(LOADED_DESTROY, _words(0, executable))


@pytest.fixture
def readback(shim: ctypes.CDLL) -> Iterator[Callable[..., None]]:
  yield lambda function: shim.PjrtShardy_SetReadbackCallback(function, None)
  shim.PjrtShardy_SetReadbackCallback(None, None)


def test_program_reads_as_the_plugins_own(plugin: Plugin, inner: Plugin,
                                          executable: int) -> None:
  program, kind = plugin.read(executable)
  assert _unordered((program, kind)) == _unordered(inner.read(executable))
  assert kind == b'hlo_with_config' and b'constant' in program


@pytest.mark.parametrize('name', [b'c', b'shardings', b'a_much_longer_name'])
def test_callback_replaces_what_is_read(shim: ctypes.CDLL, plugin: Plugin,
                                        inner: Plugin, executable: int,
                                        readback: Callable[..., None],
                                        name: bytes) -> None:
  own = _unordered(inner.read(executable))
  rewrite = Rewrite(shim, lambda old: old.replace(b'constant', name))
  readback(rewrite.function)
  program, kind = plugin.read(executable)
  (seen,) = rewrite.seen
  assert _unordered(seen) == own
  assert (program, kind) == (seen[0].replace(b'constant', name), seen[1])
  assert program != seen[0]
  # It is a reading only: the plugin's program is what it was.
  assert _unordered(inner.read(executable)) == own
  assert plugin.run(executable, 10) == [1.5, 2.5]
  readback(None)
  assert _unordered(plugin.read(executable)) == own
  assert len(rewrite.seen) == 1


def test_callback_leaves_what_is_read(plugin: Plugin, inner: Plugin,
                                      executable: int,
                                      readback: Callable[..., None]) -> None:
  function = _READBACK(lambda *_: None)
  readback(function)
  assert _unordered(plugin.read(executable)) == _unordered(
      inner.read(executable))
  readback(None)


def test_callback_fails_the_reading(shim: ctypes.CDLL, plugin: Plugin,
                                    executable: int,
                                    readback: Callable[..., None]) -> None:
  text = b'ValueError: no such sharding'

  @_READBACK
  def function(readback_: int, *_: int) -> None:
    shim.PjrtShardy_FailReadback(
        ctypes.c_void_p(readback_), INVALID_ARGUMENT, text,
        ctypes.c_size_t(len(text)))

  readback(function)
  with pytest.raises(PjrtError) as caught:
    plugin.read(executable)
  assert caught.value.args == (INVALID_ARGUMENT, text.decode())
  readback(None)


def test_compile_callback_reads_past_the_readback(
    shim: ctypes.CDLL, plugin: Plugin, client: int,
    readback: Callable[..., None]) -> None:
  rewrite = Rewrite(shim, lambda old: b'rewritten')
  readback(rewrite.function)
  own: list[bytes] = []

  def callback(compilation: ctypes.c_void_p, request: Request) -> None:
    _compile(shim, compilation, PROGRAM, request)
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    kind, kind_size = ctypes.c_void_p(), ctypes.c_size_t()
    shim.PjrtShardy_CompiledProgram(
        compilation, *map(ctypes.byref, (program, size, kind, kind_size)))
    own.append(ctypes.string_at(program.value, size.value))

  executable = _with_callback(shim, callback,
                              lambda: plugin.compile(client, PROGRAM))
  assert not rewrite.seen
  assert plugin.read(executable) == (b'rewritten', b'hlo_with_config')
  (seen,) = rewrite.seen
  assert _unordered(seen) == _unordered((own[0], b'hlo_with_config'))
  plugin.call(LOADED_DESTROY, _words(0, executable))
  readback(None)
