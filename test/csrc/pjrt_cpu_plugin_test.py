"""The shim before XLA's CPU plugin, through ctypes as Python uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import ctypes
import os

import environments
from pjrt_table import (ADDRESSABLE_DEVICES, CLIENT_COMPILE, CLIENT_CREATE,
                        CLIENT_DESTROY, EXECUTABLE_DESTROY, EXECUTE,
                        GET_EXECUTABLE, INVALID_ARGUMENT, LOADED_DESTROY,
                        ONE_DEVICE, open_table, OPTIMIZED_PROGRAM, PjrtError,
                        Plugin, PLUGIN_INITIALIZE, words)
import pytest
from shim_build import Build

# The plugin stays loaded and runs threads: a process of its own. Nothing here
# looks at these variables: with those of other tests, their server serves.
ENVIRONMENT = environments.DEVICES

PROGRAM = b'''module @constant {
  func.func @main() -> tensor<2xf32> {
    %0 = stablehlo.constant dense<[1.5, 2.5]> : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}'''
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p,
                             ctypes.c_void_p)


class Request(ctypes.Structure):
  _fields_ = [('struct_size', ctypes.c_size_t), ('program', ctypes.c_void_p),
              ('program_size', ctypes.c_size_t), ('format', ctypes.c_void_p),
              ('format_size', ctypes.c_size_t), ('options', ctypes.c_void_p),
              ('options_size', ctypes.c_size_t)]


@pytest.fixture(scope='module')
def shim(build: Build, inner_path: str) -> ctypes.CDLL:
  library = ctypes.CDLL(str(build.library))
  library.PjrtShardy_CompileMessage.restype = ctypes.c_char_p
  message = ctypes.create_string_buffer(1000)
  code = library.PjrtShardy_Open(
      os.fsencode(inner_path), message, ctypes.c_size_t(1000))
  assert (code, message.value) == (0, b'')
  return library


@pytest.fixture(scope='module')
def plugin(shim: ctypes.CDLL) -> Plugin:
  plugin = open_table(shim)
  plugin.call(PLUGIN_INITIALIZE, words(0))
  return plugin


@pytest.fixture(scope='module')
def inner(inner_path: str, plugin: Plugin) -> Plugin:
  return open_table(ctypes.CDLL(inner_path))


@pytest.fixture(scope='module')
def client(plugin: Plugin) -> Iterator[int]:
  client = plugin.create_client(1)
  yield client
  plugin.call(CLIENT_DESTROY, words(0, client))


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
                                        ctypes.c_size_t(len(program)), None,
                                        ctypes.c_size_t(0),
                                        ctypes.c_void_p(request.options),
                                        ctypes.c_size_t(request.options_size))


def test_table_is_the_plugins_own(plugin: Plugin, inner: Plugin) -> None:
  assert (plugin.size, plugin.version) == (inner.size, inner.version)
  # The chain begins with the shim's profiler, as this plugin has none.
  assert plugin.extensions != inner.extensions
  changed = [
      i for i, (a, b) in enumerate(zip(plugin.slots, inner.slots)) if a != b
  ]
  assert set(changed) - {132} == {
      0, 1, 2, CLIENT_DESTROY, ADDRESSABLE_DEVICES, CLIENT_COMPILE,
      OPTIMIZED_PROGRAM, EXECUTE, EXECUTABLE_DESTROY, LOADED_DESTROY,
      GET_EXECUTABLE
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
  for size in (9, 10, 11, 14, 15, 40):
    assert plugin.run(executable, size) == [1.5, 2.5]
  plugin.call(LOADED_DESTROY, words(0, executable))


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
  assert seen == [(PROGRAM, b'mlir', ONE_DEVICE)]
  assert results == [(0, b'hlo_with_config', True)]
  assert plugin.run(executable, 10) == [1.5, 7.5]
  plugin.call(LOADED_DESTROY, words(0, executable))


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


def _unordered(reading: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
  """XLA serializes maps in another order each time."""
  program, kind = reading
  return bytes(sorted(program)), kind


@pytest.fixture
def executable(plugin: Plugin, client: int) -> Iterator[int]:
  executable = plugin.compile(client, PROGRAM)
  yield executable
  plugin.call(LOADED_DESTROY, words(0, executable))


def test_program_reads_as_the_plugins_own(plugin: Plugin, inner: Plugin,
                                          executable: int) -> None:
  program, kind = plugin.read(executable)
  assert _unordered((program, kind)) == _unordered(inner.read(executable))
  assert kind == b'hlo_with_config' and b'constant' in program
