"""Products, gathers and scatters in StableHLO: the smallest modules, and runs.

What is to become of them is said in `sdy/dot_dims_test`, `sdy/index_dims_test`
and `lower/scatter_indices_test`, which do the same to HLO.
"""

from __future__ import annotations

import re

import mlir_modules as modules
import pytest
from torch_xla.shardy.stablehlo import (dialects, dot_dims, index_dims,
                                        scatter_indices)

pytest.importorskip('jaxlib', reason='needs jaxlib: it reads and prints MLIR')


def _typed(text: str) -> str:
  """With `8x4xf32` as MLIR has it."""
  return re.sub(r'(?<![\w<])((?:\d+x)+[a-z]\w*)', r'tensor<\1>', text)


def _after(change,
           arguments: str,
           results: str,
           body: str,
           count: int = 1) -> str:
  """What becomes of main's body."""
  module = modules.main(_typed(arguments), _typed(results), _typed(body))
  assert change(module) == count
  assert module.operation.verify()
  assert change(module) == 0
  lines = dialects.text(module).replace('stablehlo.', '').splitlines()
  text = '\n'.join(line[4:] for line in lines[2:-2])
  return re.sub(r'tensor<((?:\d+x)+\w+)>', r'\1', text)


def test_heads():
  assert _after(
      dot_dims.unmerge, '%q: 8x4x5x6xf32, %k: 8x4x7x6xf32', '8x4x5x7xf32', '''
  %a = stablehlo.reshape %q : (8x4x5x6xf32) -> 32x5x6xf32
  %b = stablehlo.reshape %k : (8x4x7x6xf32) -> 32x7x6xf32
  %t = stablehlo.transpose %b, dims = [0, 2, 1] : (32x7x6xf32) -> 32x6x7xf32
  %c = stablehlo.dot_general %a, %t, batching_dims = [0] x [0], \
contracting_dims = [2] x [1] : (32x5x6xf32, 32x6x7xf32) -> 32x5x7xf32
  %d = stablehlo.reshape %c : (32x5x7xf32) -> 8x4x5x7xf32
  return %d : 8x4x5x7xf32
''') == '''\
%0 = dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], \
contracting_dims = [3] x [3] : (8x4x5x6xf32, 8x4x7x6xf32) -> \
8x4x5x7xf32
return %0 : 8x4x5x7xf32'''


def test_a_layer_its_bias_and_what_follows():
  """Of the plain `dot` that a product of two dimensions is converted to."""
  assert _after(
      dot_dims.unmerge, '%x: 8x5x6xf32, %w: 6x4xf32, %b: 4xf32', '8x5x2x2xf32',
      '''
  %a = stablehlo.reshape %x : (8x5x6xf32) -> 40x6xf32
  %c = stablehlo.dot %a, %w : (40x6xf32, 6x4xf32) -> 40x4xf32
  %e = stablehlo.broadcast_in_dim %b, dims = [1] : (4xf32) -> 40x4xf32
  %s = stablehlo.add %c, %e : 40x4xf32
  %t = stablehlo.tanh %s : 40x4xf32
  %d = stablehlo.reshape %t : (40x4xf32) -> 8x5x2x2xf32
  return %d : 8x5x2x2xf32
''') == '''\
%0 = dot_general %arg0, %arg1, contracting_dims = [2] x [0] : \
(8x5x6xf32, 6x4xf32) -> 8x5x4xf32
%1 = broadcast_in_dim %arg2, dims = [2] : (4xf32) -> 8x5x4xf32
%2 = add %0, %1 : 8x5x4xf32
%3 = tanh %2 : 8x5x4xf32
%4 = reshape %3 : (8x5x4xf32) -> 8x5x2x2xf32
return %4 : 8x5x2x2xf32'''


def test_what_uses_a_product_twice():
  """By way of another that follows it: both are made anew, once."""
  assert _after(
      dot_dims.unmerge, '%x: 8x5x6xf32, %w: 6x4xf32', '8x5x4xf32', '''
  %a = stablehlo.reshape %x : (8x5x6xf32) -> 40x6xf32
  %c = stablehlo.dot %a, %w : (40x6xf32, 6x4xf32) -> 40x4xf32
  %t = stablehlo.tanh %c : 40x4xf32
  %m = stablehlo.multiply %c, %t : 40x4xf32
  %d = stablehlo.reshape %m : (40x4xf32) -> 8x5x4xf32
  return %d : 8x5x4xf32
''') == '''\
%0 = dot_general %arg0, %arg1, contracting_dims = [2] x [0] : \
(8x5x6xf32, 6x4xf32) -> 8x5x4xf32
%1 = tanh %0 : 8x5x4xf32
%2 = multiply %0, %1 : 8x5x4xf32
return %2 : 8x5x4xf32'''


def test_the_gradient_of_a_weight():
  assert _after(
      dot_dims.unmerge, '%x: 8x5x6xf32, %g: 8x5x4xf32', '4x6xf32', '''
  %a = stablehlo.reshape %x : (8x5x6xf32) -> 40x6xf32
  %b = stablehlo.reshape %g : (8x5x4xf32) -> 40x4xf32
  %t = stablehlo.transpose %b, dims = [1, 0] : (40x4xf32) -> 4x40xf32
  %c = stablehlo.dot %t, %a : (4x40xf32, 40x6xf32) -> 4x6xf32
  return %c : 4x6xf32
''') == '''\
%0 = dot_general %arg1, %arg0, contracting_dims = [0, 1] x [0, 1] : \
(8x5x4xf32, 8x5x6xf32) -> 4x6xf32
return %0 : 4x6xf32'''


def test_a_transposed_result_that_is_split():
  assert _after(
      dot_dims.unmerge, '%q: 8x4x5x6xf32, %g: 8x4x5x7xf32', '8x4x7x6xf32', '''
  %a = stablehlo.reshape %q : (8x4x5x6xf32) -> 32x5x6xf32
  %b = stablehlo.reshape %g : (8x4x5x7xf32) -> 32x5x7xf32
  %c = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], \
contracting_dims = [1] x [1] : (32x5x6xf32, 32x5x7xf32) -> 32x6x7xf32
  %t = stablehlo.transpose %c, dims = [0, 2, 1] : (32x6x7xf32) -> 32x7x6xf32
  %d = stablehlo.reshape %t : (32x7x6xf32) -> 8x4x7x6xf32
  return %d : 8x4x7x6xf32
''') == '''\
%0 = dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], \
contracting_dims = [2] x [2] : (8x4x5x6xf32, 8x4x5x7xf32) -> \
8x4x6x7xf32
%1 = transpose %0, dims = [0, 1, 3, 2] : (8x4x6x7xf32) -> \
8x4x7x6xf32
return %1 : 8x4x7x6xf32'''


def test_a_product_of_a_tensor_with_itself_that_is_returned_merged():
  assert _after(
      dot_dims.unmerge, '%x: 2x4x5xf32', '8x8xf32', '''
  %a = stablehlo.reshape %x : (2x4x5xf32) -> 8x5xf32
  %c = stablehlo.dot_general %a, %a, contracting_dims = [1] x [1] : (8x5xf32, \
8x5xf32) -> 8x8xf32
  return %c : 8x8xf32
''') == '''\
%0 = dot_general %arg0, %arg0, contracting_dims = [2] x [2] : \
(2x4x5xf32, 2x4x5xf32) -> 2x4x2x4xf32
%1 = reshape %0 : (2x4x2x4xf32) -> 8x8xf32
return %1 : 8x8xf32'''


def test_a_reshape_with_a_sharding_stays():
  body = '''
  %a = stablehlo.reshape %x {mhlo.sharding = "{replicated}"} : (8x5x6xf32) -> \
40x6xf32
  %c = stablehlo.dot %a, %w : (40x6xf32, 6x4xf32) -> 40x4xf32
  return %c : 40x4xf32
'''
  module = modules.main(
      _typed('%x: 8x5x6xf32, %w: 6x4xf32'), _typed('40x4xf32'), _typed(body))
  before = dialects.text(module)
  assert dot_dims.unmerge(module) == 0
  assert dialects.text(module) == before


def test_gather():
  assert _after(
      index_dims.batch, '%x: 16x5xf32, %i: 16x8x1xui32', '16x8xf32', '''
  %n = stablehlo.iota dim = 0 : 16x8x1xui32
  %j = stablehlo.concatenate %n, %i, dim = 2 : (16x8x1xui32, 16x8x1xui32) -> \
16x8x2xui32
  %y = "stablehlo.gather"(%x, %j) <{dimension_numbers = \
#stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], \
index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, \
1>}> : (16x5xf32, 16x8x2xui32) -> 16x8xf32
  return %y : 16x8xf32
''').replace('#', '') == '''\
%0 = "gather"(%arg0, %arg1) <{dimension_numbers = gather<\
collapsed_slice_dims = [1], operand_batching_dims = [0], \
start_indices_batching_dims = [0], start_index_map = [1], \
index_vector_dim = 2>, indices_are_sorted = false, \
slice_sizes = array<i64: 1, 1>}> : (16x5xf32, 16x8x1xui32) -> \
16x8xf32
return %0 : 16x8xf32'''


_SCATTER = '''
  %n = stablehlo.iota dim = 0 : 16x8x1xi64
  %j = stablehlo.concatenate %i, %n, %i, dim = 2 : (16x8x1xi64, 16x8x1xi64, \
16x8x1xi64) -> 16x8x3xi64
  %y = "stablehlo.scatter"(%x, %j, %u) <{indices_are_sorted = false, \
scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0, 1, \
2], scatter_dims_to_operand_dims = [0, 1, 2], index_vector_dim = 2>, \
unique_indices = false}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    stablehlo.return %b : tensor<f32>
  }) : (5x16x5xf32, 16x8x3xi64, 16x8xf32) -> 5x16x5xf32
  return %y : 5x16x5xf32
'''
_SCATTER_ARGUMENTS = ('%x: 5x16x5xf32, %i: 16x8x1xi64, %u: 16x8xf32')


def test_scatter():
  text = _after(index_dims.batch, _SCATTER_ARGUMENTS, '5x16x5xf32', _SCATTER)
  assert 'concatenate %arg1, %arg1, dim = 2' in text
  assert ('inserted_window_dims = [0, 2], input_batching_dims = [1], '
          'scatter_indices_batching_dims = [0], '
          'scatter_dims_to_operand_dims = [0, 2]') in text
  assert 'iota' not in text


def test_the_indices_of_a_scatter():
  text = _after(scatter_indices.narrow, _SCATTER_ARGUMENTS, '5x16x5xf32',
                _SCATTER)
  assert '(16x8x3xi64) -> 16x8x3xi32' in text
  assert '(5x16x5xf32, 16x8x3xi32, 16x8xf32)' in text
