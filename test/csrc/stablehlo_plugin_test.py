"""The stand-in for a vendor's StableHLO plugin, which other tests rely on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import ctypes
from pathlib import Path
import shutil

import environments
import numpy as np
from pjrt_table import (CLIENT_DESTROY, EXECUTABLE_DESTROY, GET_EXECUTABLE,
                        INVALID_ARGUMENT, LOADED_DESTROY, open_table,
                        OPTIMIZED_PROGRAM, PjrtError, Plugin, PLUGIN_INITIALIZE,
                        words)
import pytest
from shim_build import Build, ROOT
import torch
import torch_xla
from torch_xla.distributed import spmd as xs
from torch_xla.shardy import BackendCompileError, door, DoorError
from torch_xla.shardy.door import shim
from torch_xla.shardy.door.device_plugins import XlaCpuPlugin
from torch_xla.shardy.hlo import messages, protos
import torch_xla.runtime as xr

# Most tests load the plugin themselves: in a process of its own, as those of
# pjrt_cpu_plugin_test.
ENVIRONMENT = environments.DEVICES
# The same before torch_xla; the library need not be built yet.
_SETTINGS = dict(
    PJRT_DEVICE='LIBRARY',
    PJRT_LIBRARY_PATH=str(ROOT /
                          'build/bazel-bin/test/csrc/libstablehlo_plugin.so'),
    XLA_SHARDING_V2='1',
    XLA_STABLEHLO_COMPILE='1',
    STABLEHLO_PLUGIN_INNER=XlaCpuPlugin().library_path(),
    STABLEHLO_PLUGIN_TEXT=str(ROOT / 'test/csrc/compiled_text.py'),
    STABLEHLO_PLUGIN_DEVICES='8',
    STABLEHLO_PLUGIN_VERSION='1.13.3')
_RUNTIME = pytest.mark.environment(**_SETTINGS)
_TELLS_NOTHING = pytest.mark.environment(
    **_SETTINGS, STABLEHLO_PLUGIN_ANSWERS='absent')

UNIMPLEMENTED = 12
# CompileOptionsProto: one replica, 8 partitions, which GSPMD makes.
OPTIONS = bytes([0x1a, 6, 0x20, 1, 0x28, 8, 0x30, 1])
OptionalPlugin = Callable[..., Plugin]

PARAMETERS = {
    'tensor<8x4xf32>': '{devices=[2,4]<=[8]}',
    'tensor<8x4xbf16>': '{devices=[4,2]<=[2,4]T(1,0)}',
    'tensor<4xi1>': '{devices=[2,4]<=[8] last_tile_dim_replicate}',
    'tensor<16x2x1xui8>': '{devices=[2,1,2,2]<=[2,2,2]T(2,1,0) '
                          'last_tile_dim_replicate}',
    'tensor<8xi64>': '{devices=[8]0,2,4,6,1,3,5,7}',
    'tensor<complex<f32>>': '{replicated}',
    'tensor<2xf64>': '{replicated}',
}
# On one device.
LOCAL = ('tensor<4x1xf32>', 'tensor<2x2xbf16>', 'tensor<2xi1>',
         'tensor<8x2x1xui8>', 'tensor<1xi64>', 'tensor<complex<f32>>',
         'tensor<2xf64>')


def _program(types: list[str], name: str = 'jit_f.1') -> bytes:
  """One that gives its parameters, sharded as they are."""
  names = [f'%arg{i}' for i in range(len(types))]
  sharded = [f'{t} {{mhlo.sharding = "{PARAMETERS[t]}"}}' for t in types]
  arguments = ', '.join(f'{n}: {t}' for n, t in zip(names, sharded))
  returned = f'{", ".join(names)} : {", ".join(types)}' if types else ''
  return f'''module @{name} {{
    func.func @main({arguments}) -> ({', '.join(sharded)}) {{
      return {returned}
    }}
  }}'''.encode()


PROGRAM = _program(list(PARAMETERS)[:3])


@pytest.fixture(scope='module', name='load')
def load_fixture(build: Build, inner_path: str,
                 tmp_path_factory: pytest.TempPathFactory) -> OptionalPlugin:
  """Loads the plugin with these settings, each time as another library."""

  def load(**settings: object) -> Plugin:
    path = tmp_path_factory.mktemp('plugin') / 'plugin.so'
    shutil.copy(build.stablehlo_plugin, path)
    with pytest.MonkeyPatch.context() as patch:
      patch.setenv('STABLEHLO_PLUGIN_INNER', inner_path)
      patch.setenv('STABLEHLO_PLUGIN_TEXT', _SETTINGS['STABLEHLO_PLUGIN_TEXT'])
      for name, value in settings.items():
        patch.setenv(f'STABLEHLO_PLUGIN_{name.upper()}', str(value))
      return open_table(ctypes.CDLL(str(path)))

  return load


@pytest.fixture(scope='module', name='client')
def client_fixture(load: OptionalPlugin) -> Iterator[int]:
  """The real plugin's, so any of those before it serves."""
  plugin = load()
  plugin.call(PLUGIN_INITIALIZE, words(0))
  client = plugin.create_client(8)
  yield client
  plugin.call(CLIENT_DESTROY, words(0, client))


def _compile_and_read(plugin: Plugin,
                      client: int,
                      program: bytes = PROGRAM) -> tuple[bytes, bytes]:
  loaded = plugin.compile(client, program, options=OPTIONS)
  try:
    return plugin.read(loaded)
  finally:
    plugin.call(LOADED_DESTROY, words(0, loaded))


def _parse(text: bytes):
  """The module's output sharding; parameters' types and shardings; results'."""
  pytest.importorskip('jaxlib', reason='needs jaxlib: it parses MLIR')
  from jax._src.interpreters import mlir
  with mlir.make_ir_context():
    module = mlir.ir.Module.parse(text)
    module.operation.verify()
    main, = module.body.operations
    assert main.name.value == 'main'
    attributes = module.operation.attributes
    output = None
    if 'mhlo.spmd_output_sharding' in attributes:
      output = attributes['mhlo.spmd_output_sharding'].value
    types = [str(t) for t in main.type.inputs]
    shardings = [
        mlir.ir.DictAttr(a)['mhlo.sharding'].value
        if 'mhlo.sharding' in mlir.ir.DictAttr(a) else None
        for a in main.arg_attrs
    ]
    return output, types, shardings, [str(t) for t in main.type.results]


def test_text_says_what_was_compiled(load: OptionalPlugin, client: int) -> None:
  types = list(PARAMETERS)
  text, form = _compile_and_read(load(), client, _program(types))
  assert form == b'mlir'
  assert text.startswith(b'module @"jit_f')
  shardings = list(PARAMETERS.values())
  # XLA counts the elements of a tuple.
  output, *rest = _parse(text)
  assert output.replace('/*index=5*/', '') == f'{{{", ".join(shardings)}}}'
  assert rest == [list(LOCAL), shardings, list(LOCAL)]


@pytest.mark.parametrize('count', [0, 1])
def test_text_of_few(load: OptionalPlugin, client: int, count: int) -> None:
  text, _ = _compile_and_read(load(), client,
                              _program(list(PARAMETERS)[:count]))
  output, types, shardings, results = _parse(text)
  assert types == results == list(LOCAL)[:count]
  assert shardings == list(PARAMETERS.values())[:count]
  if count:
    assert output.strip('{}') == PARAMETERS['tensor<8x4xf32>'].strip('{}')


def test_wrong_text(load: OptionalPlugin, client: int) -> None:
  right, _ = _compile_and_read(load(), client)
  wrong, _ = _compile_and_read(load(answers='wrong'), client)
  output, types, (first, *rest), results = _parse(wrong)
  assert first == '{replicated}'
  assert (output, types, [PARAMETERS['tensor<8x4xf32>'],
                          *rest], results) == _parse(right)


def test_silent_text(load: OptionalPlugin, client: int) -> None:
  right, _ = _compile_and_read(load(), client)
  silent, form = _compile_and_read(load(answers='silent'), client)
  assert form == b'mlir' and b'sharding' not in silent
  assert _parse(silent) == (None, _parse(right)[1], [None] * 3,
                            _parse(right)[3])


def test_other_answers(load: OptionalPlugin, client: int) -> None:
  text, form = _compile_and_read(load(answers='damaged'), client)
  assert form == b'mlir' and b'no parser' in text
  assert _compile_and_read(load(answers='echo'), client) == (PROGRAM, b'mlir')
  program, form = _compile_and_read(load(answers='hlo'), client)
  assert form == b'hlo_with_config' and b'jit_f' in program
  with pytest.raises(PjrtError, match='not implemented') as caught:
    _compile_and_read(load(answers='none'), client)
  assert caught.value.code == UNIMPLEMENTED
  assert load(answers='absent').slots[OPTIMIZED_PROGRAM] == 0


def test_echo_is_that_of_its_executable(load: OptionalPlugin,
                                        client: int) -> None:
  plugin = load(answers='echo')
  programs = [_program(list(PARAMETERS)[:n], f'f{n}') for n in range(3)]
  loaded = [plugin.compile(client, p, options=OPTIONS) for p in programs]
  executables = [plugin.call(GET_EXECUTABLE, words(0, l, 0))[3] for l in loaded]
  assert [plugin.read(l)[0] for l in loaded] == programs
  for l, executable in zip(loaded, executables):
    plugin.call(LOADED_DESTROY, words(0, l))
    plugin.call(EXECUTABLE_DESTROY, words(0, executable))


@pytest.mark.parametrize('program, form, message', [
    (PROGRAM, b'hlo', "of format 'mlir', and not 'hlo'"),
    (b'torch_xla.shardy.tag', b'mlir', "with 'torch_xla.shardy.'"),
    (b'\0mhlo.num_partitions', b'mlir', "with 'mhlo.num_partitions'"),
    (b'mhlo.num_replicas', b'mlir', "with 'mhlo.num_replicas'"),
    (b'a secret\0', b'mlir', "with 'secret'"),
    (b'an sdy.mesh', b'mlir', "with 'sdy.'"),
])
def test_refuses(load: OptionalPlugin, client: int, program: bytes, form: bytes,
                 message: str) -> None:
  plugin = load(forbids='sdy.,secret')
  with pytest.raises(PjrtError) as caught:
    plugin.compile(client, program, form, OPTIONS)
  assert caught.value.code == INVALID_ARGUMENT
  assert message in caught.value.message


def test_the_real_plugin_refuses(load: OptionalPlugin, client: int) -> None:
  call = b'''module @f {
    func.func @main() -> tensor<2xf32> {
      %0 = stablehlo.custom_call @nobody.knows() : () -> tensor<2xf32>
      return %0 : tensor<2xf32>
    }
  }'''
  with pytest.raises(PjrtError, match='nobody.knows'):
    load().compile(client, call, options=OPTIONS)
  with pytest.raises(PjrtError, match='parse'):
    load().compile(client, b'nonsense', options=OPTIONS)


def test_dump(load: OptionalPlugin, client: int, tmp_path: Path) -> None:
  plugin = load(dump=tmp_path)
  _compile_and_read(plugin, client)
  with pytest.raises(PjrtError):
    plugin.compile(client, b'nonsense', options=OPTIONS)
  assert sorted(p.name for p in tmp_path.iterdir()) == [
      '0.compiled', '0.mlir', '0.options', '1.mlir', '1.options'
  ]
  assert (tmp_path / '0.mlir').read_bytes() == PROGRAM
  assert (tmp_path / '0.options').read_bytes() == OPTIONS
  compiled = messages.parse(protos.HloModuleProtoWithConfig,
                            (tmp_path / '0.compiled').read_bytes())
  assert len(compiled.hlo_module.spmd_parameters_shardings) == 3


@pytest.mark.parametrize('settings, message', [
    ({
        'inner': ''
    }, "STABLEHLO_PLUGIN_INNER=''"),
    ({
        'inner': '/no/such/plugin.so'
    }, "'/no/such/plugin.so' has to be the path of a PJRT plugin"),
    ({
        'answers': 'mlr'
    }, "no answer is called 'mlr'"),
])
def test_bad_settings(load: OptionalPlugin, settings: dict[str, str],
                      message: str, capfd: pytest.CaptureFixture[str]) -> None:
  with pytest.raises(TypeError):  # ctypes: there is no table.
    load(**settings)
  assert message in capfd.readouterr().err


def _hand_on(compilation: door.Compilation, rest: door.Compiler) -> None:
  del rest
  compilation.compile(compilation.program, compilation.options)


@_RUNTIME
def test_torch_xla_takes_the_text(build: Build) -> None:
  """The runtime does so without us: nothing at the door changes a program."""
  del build
  undo = door.wrap(_hand_on)
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))
  a = torch.randn(8, 8)
  x = a.to('xla')
  xs.mark_sharding(x, mesh, ('x', 'y'))
  torch_xla.sync()
  spec = torch_xla._XLAC._get_xla_sharding_spec
  one = x * 2 + 1
  torch_xla.sync()
  assert spec(one) == '{devices=[2,4]0,1,2,3,4,5,6,7}'
  several = x - 1, x.sum(0), (x * 0).max()
  torch_xla.sync()
  assert [spec(t) for t in several] == [
      '{devices=[2,4]0,1,2,3,4,5,6,7}',
      '{devices=[4,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}', '{replicated}'
  ]
  expected = a * 2 + 1, a - 1, a.sum(0), torch.zeros(())
  for t, numbers in zip((one, *several), expected):
    torch.testing.assert_close(t.cpu(), numbers)
  undo()


def _refusal(compilation: door.Compilation, program: bytes,
             program_format: str) -> str:
  with pytest.raises(BackendCompileError) as caught:
    compilation.compile(program, compilation.options, program_format)
  assert caught.value.code == INVALID_ARGUMENT
  return str(caught.value)


@_RUNTIME
def test_through_the_door(build: Build) -> None:
  del build
  told = []

  def act(compilation: door.Compilation, rest: door.Compiler) -> None:
    told.append(_refusal(compilation, b'', 'hlo'))
    told.append(_refusal(compilation, b'torch_xla.shardy.tag', 'mlir'))
    rest(compilation)
    told.append(compilation.compiled_program()[1])

  undo = door.wrap(act)
  assert (torch.ones(3).to('xla') + 1).tolist() == [2., 2., 2.]
  undo()
  assert "not 'hlo'" in told[0] and 'torch_xla.shardy.' in told[1]
  assert told[2] == 'mlir'
  assert shim.plugin_attribute('stablehlo_current_version') == (1, 13, 3)
  assert shim.plugin_attribute('stablehlo_minimum_version')[0] == 0
  assert shim.plugin_attribute('nonsense') is None


@_TELLS_NOTHING
def test_an_answer_in_place_of_the_plugins(build: Build) -> None:
  """The runtime reads each compiled program, and cannot do without."""
  del build
  undo = door.wrap(_hand_on)
  with pytest.raises(Exception, match='no PJRT_Executable_OptimizedProgram'):
    (torch.ones(3).to('xla') + 1).cpu()
  undo()

  def answer(compilation: door.Compilation, rest: door.Compiler) -> None:
    _hand_on(compilation, rest)
    with pytest.raises(BackendCompileError) as caught:
      compilation.compiled_program()
    assert caught.value.code == UNIMPLEMENTED
    compilation.set_optimized_program(
        b'''module @answer attributes {
          mhlo.spmd_output_sharding = "{replicated}"
        } {
          func.func @main() -> tensor<f32> {
            %0 = stablehlo.custom_call @vendor.compiled() : () -> tensor<f32>
            return %0 : tensor<f32>
          }
        }''', 'mlir')

  undo = door.wrap(answer)
  assert (torch.ones(5).to('xla') + 2).tolist() == [3.] * 5
  undo()


def test_no_attributes_before_there_is_a_plugin() -> None:
  assert not shim.is_open()
  with pytest.raises(DoorError, match='no plugin is open yet'):
    shim.plugin_attribute('stablehlo_current_version')
