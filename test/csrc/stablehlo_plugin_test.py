"""A stand-in for a vendor's StableHLO plugin, at the door."""

from __future__ import annotations

import environments
import numpy as np
from pjrt_table import INVALID_ARGUMENT
import pytest
from shim_build import Build, ROOT
import torch
import torch_xla
from torch_xla.distributed import spmd as xs
from torch_xla.shardy import BackendCompileError, door, DoorError
from torch_xla.shardy.door import shim
from torch_xla.shardy.door.device_plugins import XlaCpuPlugin
import torch_xla.runtime as xr

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
