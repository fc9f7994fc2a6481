"""Programs as a plugin gets them, with an operation rewritten and left whole."""

import mlir_modules as modules
from printed import assert_printed
import pytest
from torch_xla.shardy.compile.plan import Surroundings
from torch_xla.shardy.hlo.compile_options import CompileOptions, Partitioner
from torch_xla.shardy.mode import Mode
from torch_xla.shardy.rewrite.planner import ShardyPlanner
from torch_xla.shardy.stablehlo import dialects
from torch_xla.shardy.stablehlo.forms import Form
from torch_xla.shardy.stablehlo.planner import StableHloPlanner
from torch_xla.shardy.stablehlo.target import Target

pytest.importorskip('jaxlib', reason='needs jaxlib: it reads and prints MLIR')

_VERSION = (1, 13, 0)
_SPLIT = '{mhlo.sharding = "{devices=[8,1]<=[8]}"}'


def _body(module, *left_out: str) -> str:
  """What a plugin gets of a program, without its first lines and last."""
  target = Target(Form.SDY, _VERSION, '')
  plan = StableHloPlanner(Mode.SHARDY, ShardyPlanner(),
                          Surroundings(disabled_rewrites=lambda: left_out),
                          lambda: target,
                          lambda: False)(dialects.write(module, _VERSION),
                                         'mlir',
                                         CompileOptions(Partitioner.GSPMD, 1,
                                                        8))
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


def test_batch_norm():
  assert_printed(
      _body(_normalised()), '''\
    %cst = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) ->
        tensor<8xf32>
    %1 = stablehlo.add %arg2, %0 : tensor<8xf32>
    %2 = stablehlo.rsqrt %1 : tensor<8xf32>
    %3 = stablehlo.multiply %arg1, %2 : tensor<8xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [1] : (tensor<8xf32>) -> F
    %5 = stablehlo.multiply %arg0, %4 : F
    %6 = stablehlo.multiply %arg2, %3 : tensor<8xf32>
    %7 = stablehlo.subtract %arg1, %6 : tensor<8xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [1] : (tensor<8xf32>) -> F
    %9 = stablehlo.add %5, %8 : F
    return %9 : F
''')


def test_batch_norm_left_whole():
  assert_printed(
      _body(_normalised(), 'batch_norm'), '''\
    %0 = "stablehlo.batch_norm_inference"(%arg0, %arg1, %arg1, %arg2, %arg2)
        <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (F,
        tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> F
    return %0 : F
''')


def _product():
  return modules.main(
      '%q: tensor<2x8x5xf32> {mhlo.sharding = "{devices=[1,8,1]<=[8]}"}, '
      '%w: tensor<5x3xf32>', 'tensor<2x8x3xf32>', '''
    %a = stablehlo.reshape %q : (tensor<2x8x5xf32>) -> tensor<16x5xf32>
    %p = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0]
        : (tensor<16x5xf32>, tensor<5x3xf32>) -> tensor<16x3xf32>
    %r = stablehlo.reshape %p : (tensor<16x3xf32>) -> tensor<2x8x3xf32>
    return %r : tensor<2x8x3xf32>''')


def test_dot_dims():
  assert_printed(
      _body(_product()), '''\
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [2] x [0] :
        (tensor<2x8x5xf32>, tensor<5x3xf32>) -> tensor<2x8x3xf32>
    return %0 : tensor<2x8x3xf32>
''')


def test_dot_dims_left_whole():
  assert_printed(
      _body(_product(), 'dot_dims'), '''\
    %0 = stablehlo.reshape %arg0 : (tensor<2x8x5xf32>) -> tensor<16x5xf32>
    %1 = stablehlo.dot_general %0, %arg1, contracting_dims = [1] x [0] :
        (tensor<16x5xf32>, tensor<5x3xf32>) -> tensor<16x3xf32>
    %2 = stablehlo.reshape %1 : (tensor<16x3xf32>) -> tensor<2x8x3xf32>
    return %2 : tensor<2x8x3xf32>
''')


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


def test_index_dims_of_a_gather():
  assert_printed(
      _body(_gather()), '''\
    %0 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers =
        #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims =
        [0], start_indices_batching_dims = [0], start_index_map = [1],
        index_vector_dim = 2>, slice_sizes = array<i64: 1, 1>}> : (F,
        tensor<8x2x1xui32>) -> tensor<8x2xf32>
    return %0 : tensor<8x2xf32>
''')


def test_index_dims_of_a_gather_left_whole():
  assert_printed(
      _body(_gather(), 'index_dims'), '''\
    %0 = stablehlo.iota dim = 0 : tensor<8x2x1xui32>
    %1 = stablehlo.concatenate %0, %arg1, dim = 2 : (tensor<8x2x1xui32>,
        tensor<8x2x1xui32>) -> tensor<8x2x2xui32>
    %2 = "stablehlo.gather"(%arg0, %1) <{dimension_numbers =
        #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0,
        1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1>}> : (F,
        tensor<8x2x2xui32>) -> tensor<8x2xf32>
    return %2 : tensor<8x2xf32>
''')


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


def test_index_dims_of_a_scatter():
  assert_printed(
      _body(_scatter()), '''\
    %0 = "stablehlo.scatter"(%arg0, %arg1, %arg2) <{scatter_dimension_numbers =
        #stablehlo.scatter<inserted_window_dims = [1], input_batching_dims =
        [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims =
        [1], index_vector_dim = 2>}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      stablehlo.return %arg4 : tensor<f32>
    }) : (F, tensor<8x2x1xi32>, tensor<8x2xf32>) -> F
    return %0 : F
''')


def test_index_dims_of_a_scatter_left_whole():
  assert_printed(
      _body(_scatter(), 'index_dims'), '''\
    %0 = stablehlo.iota dim = 0 : tensor<8x2x1xi32>
    %1 = stablehlo.concatenate %0, %arg1, dim = 2 : (tensor<8x2x1xi32>,
        tensor<8x2x1xi32>) -> tensor<8x2x2xi32>
    %2 = "stablehlo.scatter"(%arg0, %1, %arg2) <{scatter_dimension_numbers =
        #stablehlo.scatter<inserted_window_dims = [0, 1],
        scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 2>}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      stablehlo.return %arg4 : tensor<f32>
    }) : (F, tensor<8x2x2xi32>, tensor<8x2xf32>) -> F
    return %2 : F
''')
