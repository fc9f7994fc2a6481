"""Programs as a plugin gets them, with an operation rewritten and left whole."""

import mlir_modules as modules
import pytest
from torch_xla.shardy.compile.plan import Surroundings
from torch_xla.shardy.hlo.compile_options import CompileOptions, Partitioner
from torch_xla.shardy.mode import Mode
from torch_xla.shardy.stablehlo import dialects
from torch_xla.shardy.stablehlo.forms import Form
from torch_xla.shardy.stablehlo.planner import Planner
from torch_xla.shardy.stablehlo.target import Target

pytest.importorskip('jaxlib', reason='needs jaxlib: it reads and prints MLIR')

_VERSION = (1, 13, 0)
_SPLIT = '{mhlo.sharding = "{devices=[8,1]<=[8]}"}'


def _body(module, *left_out: str) -> str:
  """What a plugin gets of a program, without its first lines and last."""
  target = Target(Form.SDY, _VERSION, '')
  planner = Planner(
      Mode.SHARDY,
      Surroundings(disabled_rewrites=lambda: left_out),
      target=lambda: target)
  plan = planner(
      dialects.write(module, _VERSION), 'mlir',
      CompileOptions(Partitioner.GSPMD, 1, 8))
  assert not plan.reason
  attempt = plan.attempt()
  assert attempt.partitioner is Partitioner.SHARDY
  text = modules.shown(dialects.read(attempt.program))
  return text[text.index('{\n    ') + 2:text.index('  }\n}')]


def _normalised():
  return modules.main(
      f'%x: F {_SPLIT}, %s: tensor<8xf32>, %m: tensor<8xf32>', 'F', '''
    %n = "stablehlo.batch_norm_inference"(%x, %s, %s, %m, %m) <{
        epsilon = 1.0e-3 : f32, feature_index = 1 : i64}> : (F, tensor<8xf32>,
        tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> F
    return %n : F''')


def _product():
  return modules.main(
      '%q: tensor<2x8x5xf32> {mhlo.sharding = "{devices=[1,8,1]<=[8]}"}, '
      '%w: tensor<5x3xf32>', 'tensor<2x8x3xf32>', '''
    %a = stablehlo.reshape %q : (tensor<2x8x5xf32>) -> tensor<16x5xf32>
    %p = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0]
        : (tensor<16x5xf32>, tensor<5x3xf32>) -> tensor<16x3xf32>
    %r = stablehlo.reshape %p : (tensor<16x3xf32>) -> tensor<2x8x3xf32>
    return %r : tensor<2x8x3xf32>''')


def _gather():
  return modules.main(
      f'%x: F {_SPLIT}, %i: tensor<8x2x1xui32>', 'tensor<8x2xf32>', '''
    %n = stablehlo.iota dim = 0 : tensor<8x2x1xui32>
    %j = stablehlo.concatenate %n, %i, dim = 2
        : (tensor<8x2x1xui32>, tensor<8x2x1xui32>) -> tensor<8x2x2xui32>
    %y = "stablehlo.gather"(%x, %j) <{dimension_numbers =
        #stablehlo.gather<collapsed_slice_dims = [0, 1],
        start_index_map = [0, 1], index_vector_dim = 2>,
        indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}>
        : (F, tensor<8x2x2xui32>) -> tensor<8x2xf32>
    return %y : tensor<8x2xf32>''')


def _scatter():
  return modules.main(
      f'%x: F {_SPLIT}, %i: tensor<8x2x1xi32>, %u: tensor<8x2xf32>', 'F', '''
    %n = stablehlo.iota dim = 0 : tensor<8x2x1xi32>
    %j = stablehlo.concatenate %n, %i, dim = 2
        : (tensor<8x2x1xi32>, tensor<8x2x1xi32>) -> tensor<8x2x2xi32>
    %y = "stablehlo.scatter"(%x, %j, %u) <{scatter_dimension_numbers =
        #stablehlo.scatter<inserted_window_dims = [0, 1],
        scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 2>,
        indices_are_sorted = false, unique_indices = false}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        stablehlo.return %b : tensor<f32>
    }) : (F, tensor<8x2x2xi32>, tensor<8x2xf32>) -> F
    return %y : F''')


@pytest.mark.parametrize('name, module, whole, rewritten', [
    ('batch_norm', _normalised, 'stablehlo.batch_norm_inference',
     'stablehlo.rsqrt'),
    ('dot_dims', _product, 'stablehlo.reshape',
     '%0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [2] x [0]'),
    ('index_dims', _gather, 'stablehlo.concatenate',
     'operand_batching_dims = [0], start_indices_batching_dims = [0], '
     'start_index_map = [1]'),
    ('index_dims', _scatter, 'stablehlo.concatenate',
     'input_batching_dims = [0], scatter_indices_batching_dims = [0], '
     'scatter_dims_to_operand_dims = [1]'),
])
def test_rewritten_or_left_whole(name, module, whole, rewritten):
  text = _body(module())
  assert rewritten in text and whole not in text
  text = _body(module(), name)
  assert whole in text and rewritten not in text
