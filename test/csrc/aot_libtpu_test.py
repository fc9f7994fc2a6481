"""The compile-only plugin before libtpu, for eight chips that are not here."""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path

from pjrt_table import (address, BUFFER_DESTROY, BUFFER_TO_HOST, CLIENT_CREATE,
                        EXECUTE, INVALID_ARGUMENT, LOADED_DESTROY, open_table,
                        PjrtError, Plugin, PLUGIN_INITIALIZE, words)
import pytest
from shim_build import Build

# libtpu is loaded once per process, and asks no metadata server for its chips.
ENVIRONMENT = {
    'ALLOW_MULTIPLE_LIBTPU_LOAD': '1',
    'TPU_ACCELERATOR_TYPE': 'v5litepod-8',
    'TPU_SKIP_MDS_QUERY': '1',
    'TPU_WORKER_HOSTNAMES': 'localhost',
}
pytestmark = pytest.mark.slow

CLIENT_ADDRESSABLE, UPLOAD = 16, 22
BUFFER_DIMENSIONS, BUFFER_IS_DELETED = 60, 68
F32, BF16 = 11, 13
RESOURCE_EXHAUSTED = 8
# CompileOptionsProto: one replica, and one partition or eight, SPMD.
ONE = bytes([0x1a, 4, 0x20, 1, 0x28, 1])
EIGHT = bytes([0x1a, 6, 0x20, 1, 0x28, 8, 0x30, 1])
# Rows of `a` over all chips, `b` on each; the result takes the place of `a`.
PROGRAM = b"""module @step attributes {
  mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(
      %a: tensor<64x128xf32> {mhlo.sharding = "{devices=[8,1]<=[8]}",
                              tf.aliasing_output = 0 : i32},
      %b: tensor<128x128xbf16> {mhlo.sharding = "{replicated}"})
      -> (tensor<64x128xf32> {mhlo.sharding = "{devices=[8,1]<=[8]}"}) {
    %0 = stablehlo.convert %b : (tensor<128x128xbf16>) -> tensor<128x128xf32>
    %1 = stablehlo.dot_general %a, %0, contracting_dims = [1] x [0]
        : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
    return %1 : tensor<64x128xf32>
  }
}"""
# 64 GiB in and out, for a chip of 16.
LARGE = b"""module @large {
  func.func @main(%a: tensor<131072x131072xf32>)
      -> tensor<131072x131072xf32> {
    %0 = stablehlo.add %a, %a : tensor<131072x131072xf32>
    return %0 : tensor<131072x131072xf32>
  }
}"""


class Options(ctypes.Structure):
  _fields_ = [('library', ctypes.c_char_p), ('topology', ctypes.c_char_p),
              ('options', ctypes.c_void_p), ('num_options', ctypes.c_size_t),
              ('host', ctypes.c_int), ('one_process', ctypes.c_int),
              ('refuse_reads', ctypes.c_int), ('step_limit', ctypes.c_int64),
              ('stop_signal', ctypes.c_int)]


class Device(ctypes.Structure):
  _fields_ = [('id', ctypes.c_int64), ('process', ctypes.c_int),
              ('addressable', ctypes.c_int), ('kind', ctypes.c_char_p),
              ('kind_size', ctypes.c_size_t),
              ('coordinates', ctypes.c_int64 * 3),
              ('num_coordinates', ctypes.c_size_t), ('slice', ctypes.c_int64)]


class Facts(ctypes.Structure):
  _fields_ = [('flops', ctypes.c_double), ('bytes_accessed', ctypes.c_double),
              ('executions', ctypes.c_int64), ('beside', ctypes.c_int64)]


def _open(library: ctypes.CDLL, topology: bytes, host: int) -> tuple[int, str]:
  spec = importlib.util.find_spec('libtpu')
  if spec is None:
    pytest.skip('libtpu, the plugin that compiles, is not installed')
  path = Path(spec.submodule_search_locations[0]) / 'libtpu.so'
  options = Options(str(path).encode(), topology, host=host)
  message = ctypes.create_string_buffer(4096)
  code = library.PjrtAot_Open(
      ctypes.byref(options), message, ctypes.c_size_t(4096))
  return code, message.value.decode()


@pytest.fixture(scope='module')
def library(build: Build) -> ctypes.CDLL:
  """Opened for host 1 of 2, after two refusals."""
  library = ctypes.CDLL(str(build.aot_library))
  code, message = _open(library, b'v99:2x4', 0)
  assert code == INVALID_ARGUMENT and 'v99' in message, (code, message)
  code, message = _open(library, b'v5e:2x4', 2)
  assert code == INVALID_ARGUMENT and 'hosts 0 to 1' in message, (code, message)
  assert _open(library, b'v5e:2x4', 1) == (0, '')
  return library


@pytest.fixture(scope='module')
def plugin(library: ctypes.CDLL) -> Plugin:
  plugin = open_table(library)
  plugin.call(PLUGIN_INITIALIZE, words(0))
  return plugin


@pytest.fixture(scope='module')
def client(plugin: Plugin) -> int:
  return plugin.call(CLIENT_CREATE, words(0, 0, 0, 0, 0, 0, 0, 0))[8]


@pytest.fixture(scope='module')
def local(plugin: Plugin, client: int) -> list[int]:
  """The devices of this host."""
  found = plugin.call(CLIENT_ADDRESSABLE, words(0, client, 0, 0))
  return list((ctypes.c_size_t * found[4]).from_address(found[3]))


@pytest.fixture(scope='module')
def step(library: ctypes.CDLL, plugin: Plugin, client: int) -> int:
  loaded = plugin.compile(client, PROGRAM, EIGHT)
  library.PjrtAot_LastProgram.restype = ctypes.c_int64
  assert library.PjrtAot_SetDonated(
      ctypes.c_int64(library.PjrtAot_LastProgram()), (ctypes.c_int64 * 1)(0),
      ctypes.c_size_t(1)) == 0
  return loaded


def _upload(plugin: Plugin, client: int, device: int, kind: int,
            dims: tuple[int, ...]) -> int:
  sizes = (ctypes.c_int64 * len(dims))(*dims)
  return plugin.call(
      UPLOAD,
      words(0, client, 0, kind, address(sizes), len(dims), 0, 0, 0, device, 0,
            0, 0, 0))[14]


def _dimensions(plugin: Plugin, buffer: int) -> list[int]:
  found = plugin.call(BUFFER_DIMENSIONS, words(0, buffer, 0, 0))
  return list((ctypes.c_int64 * found[4]).from_address(found[3]))


def test_devices_are_those_of_the_topology(library: ctypes.CDLL) -> None:
  seen = []
  device = Device()
  while library.PjrtAot_GetDevice(
      ctypes.c_size_t(len(seen)), ctypes.byref(device)) == 0:
    assert ctypes.string_at(device.kind, device.kind_size) == b'TPU v5 lite'
    seen.append((device.id, tuple(device.coordinates), device.process,
                 device.addressable))
  assert device.num_coordinates == 3
  # Four chips a host, two by two.
  places = [(x, y) for y in range(4) for x in range(2)]
  assert seen == [
      (i, (x, y, 0), y // 2, y // 2) for i, (x, y) in enumerate(places)
  ]


def test_facts_of_a_program(library: ctypes.CDLL, plugin: Plugin,
                            step: int) -> None:
  library.PjrtAot_LastProgram.restype = ctypes.c_int64
  number = library.PjrtAot_LastProgram()
  facts = Facts()
  assert library.PjrtAot_GetProgram(
      ctypes.c_int64(number), ctypes.byref(facts)) == 0
  a, b = 8 * 128 * 4, 128 * 128 * 2
  assert facts.flops == 2 * 8 * 128 * 128
  assert facts.bytes_accessed >= 2 * a + b
  program, form = plugin.read(step)
  assert form == b'hlo_with_config' and len(program) > 100


def test_execution_gives_what_the_program_says(plugin: Plugin, client: int,
                                               local: list[int],
                                               step: int) -> None:
  assert len(local) == 4
  arguments = [(_upload(plugin, client, device, F32, (8, 128)),
                _upload(plugin, client, device, BF16, (128, 128)))
               for device in local]
  lists = [(ctypes.c_size_t * 2)(*pair) for pair in arguments]
  outputs = [(ctypes.c_size_t * 1)() for _ in local]
  argument_lists = (ctypes.c_size_t * 4)(*map(address, lists))
  output_lists = (ctypes.c_size_t * 4)(*map(address, outputs))
  args = words(0, step, 0, address(argument_lists), 4, 2, address(output_lists),
               0, 0)

  plugin.call(EXECUTE, args)
  for (a, b), [out] in zip(arguments, outputs):
    assert _dimensions(plugin, out) == [8, 128]
    deleted = [
        plugin.call(BUFFER_IS_DELETED, words(0, buffer, 0))[3] & 1
        for buffer in (a, b)
    ]
    assert deleted == [1, 0]
    values = (ctypes.c_float * 1024)(*[1.0] * 1024)
    plugin.call(BUFFER_TO_HOST, words(0, out, 0, address(values), 4096, 0))
    assert set(values) == {0.0}
    for buffer in (a, b, out):
      plugin.call(BUFFER_DESTROY, words(0, buffer))


def test_too_much_memory_is_the_compilers_error(library: ctypes.CDLL,
                                                plugin: Plugin,
                                                client: int) -> None:
  library.PjrtAot_LastProgram.restype = ctypes.c_int64
  with pytest.raises(PjrtError, match='HBM') as raised:
    plugin.compile(client, LARGE, ONE)
  assert raised.value.code == RESOURCE_EXHAUSTED
  assert '(15.75G)' in raised.value.message
  assert library.PjrtAot_LastProgram() == -1


def test_program_is_gone_and_its_facts_are_not(library: ctypes.CDLL,
                                               plugin: Plugin,
                                               client: int) -> None:
  library.PjrtAot_LastProgram.restype = ctypes.c_int64
  loaded = plugin.compile(client, PROGRAM, EIGHT)
  number = library.PjrtAot_LastProgram()
  plugin.call(LOADED_DESTROY, words(0, loaded))
  facts = Facts()
  assert library.PjrtAot_GetProgram(
      ctypes.c_int64(number), ctypes.byref(facts)) == 0
  assert facts.flops == 2 * 8 * 128 * 128
