"""The compile-only plugin before libtpu, for eight chips that are not here."""

from __future__ import annotations

import ctypes

from pjrt_table import (address, BUFFER_DESTROY, BUFFER_TO_HOST, CLIENT_CREATE,
                        EXECUTE, LOADED_DESTROY, open_table, PjrtError, Plugin,
                        PLUGIN_INITIALIZE, words)
import pytest
from shim_build import Build
from torch_xla.shardy.aot import launcher, topologies
from torch_xla.shardy.aot.errors import AotError
from torch_xla.shardy.aot.running import plugin as aot
from torch_xla.shardy.aot.settings import Settings

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


def _open(topology: str, host: int) -> None:
  settings = Settings('script.py', False, (), topology, launcher.compiler(), '',
                      host)
  aot.open_topology(settings, topologies.parse(topology), 0)


@pytest.fixture(scope='module')
def library(build: Build) -> ctypes.CDLL:
  """Opened for host 1 of 2, after it was refused."""
  pytest.importorskip('libtpu', reason='it is the plugin that compiles')
  aot.LIBRARY_PATH = str(build.aot_library)
  with pytest.raises(AotError, match='hosts 0 to 1'):
    _open('v5e:2x4', 2)
  _open('v5e:2x4', 1)
  return aot._library()


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
def step(plugin: Plugin, client: int) -> int:
  loaded = plugin.compile(client, PROGRAM, EIGHT)
  aot.set_donated(aot.last_program(), (0,))
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
  for device in aot.devices():
    assert device.kind == 'TPU v5 lite'
    seen.append(
        (device.id, device.coordinates, device.process, device.addressable))
  # Four chips a host, two by two.
  places = [(x, y) for y in range(4) for x in range(2)]
  assert seen == [
      (i, (x, y, 0), y // 2, y // 2) for i, (x, y) in enumerate(places)
  ]


def test_facts_of_a_program(plugin: Plugin, step: int) -> None:
  facts = aot.program_facts(aot.last_program())
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


def test_too_much_memory_is_the_compilers_error(plugin: Plugin,
                                                client: int) -> None:
  with pytest.raises(PjrtError, match='HBM') as raised:
    plugin.compile(client, LARGE, ONE)
  assert raised.value.code == RESOURCE_EXHAUSTED
  assert '(15.75G)' in raised.value.message
  assert aot.last_program() is None


def test_program_is_gone_and_its_facts_are_not(plugin: Plugin,
                                               client: int) -> None:
  loaded = plugin.compile(client, PROGRAM, EIGHT)
  number = aot.last_program()
  plugin.call(LOADED_DESTROY, words(0, loaded))
  assert aot.program_facts(number).flops == 2 * 8 * 128 * 128
