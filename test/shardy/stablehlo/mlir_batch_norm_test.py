"""Normalisations written out in StableHLO: the smallest modules, and runs."""

from __future__ import annotations

import re

import mlir_modules as modules
import norms
import programs
import pytest
import torch_xla.runtime as xr
from torch_xla.shardy.stablehlo import batch_norm, dialects, extract

pytest.importorskip('jaxlib', reason='needs jaxlib: it reads and prints MLIR')

ENVIRONMENT = {**programs.ENVIRONMENT, 'XLA_STABLEHLO_COMPILE': '1'}


@pytest.fixture(scope='module', autouse=True)
def spmd_fixture():
  xr.use_spmd()
  # autograd counts the devices when it first runs, here on the CPU.
  xr.global_runtime_device_count()


def _call(kind: str,
          operands: str,
          types: str,
          results: str,
          feature: int = 1,
          more: str = '') -> str:
  return (
      f'"stablehlo.batch_norm_{kind}"({operands}) {{epsilon = 0.5 : f32, '
      f'feature_index = {feature} : i64{more}}} : ({types}) -> ({results})\n')


def _body(results: str, body: str, **types: str) -> str:
  """What becomes of main's body; with names for types, as it is given."""
  text = body
  for name, kind in types.items():
    results, text = (
        re.sub(rf'\b{name}\b', kind, part) for part in (results, text))
  arguments = f'%x: {types["W"]}, %s: {types["V"]}'
  module = modules.main(arguments, results, text)
  assert batch_norm.expand(module) == 1
  assert module.operation.verify()
  assert batch_norm.expand(module) == 0
  shown = dialects.text(module).replace('stablehlo.', '').replace(
      ' applies add across dimensions = ', ' over ')
  for name, kind in types.items():
    shown = shown.replace(kind, name)
  lines = shown.splitlines()[2:-2]
  return '\n' + ''.join(f'{line[2:]}\n' for line in lines)


def test_training():
  """What it says of itself, all say."""
  assert _body(
      'W, V',
      '%n:3 = ' + _call(
          'training',
          '%x, %s, %s',
          'W, V, V',
          'W, V, V',
          more=', theirs = 1 : i32') + 'return %n#0, %n#2 : W, V',
      W='tensor<4x2xf32>',
      V='tensor<2xf32>',
      S='tensor<f32>').replace(' {theirs = 1 : i32}', '#') == '''
  %cst = constant# dense<0.000000e+00> : S
  %0 = reduce(%arg0 init: %cst) over [0]# : (W, S) -> V
  %cst_0 = constant# dense<4.000000e+00> : S
  %1 = broadcast_in_dim %cst_0, dims = []# : (S) -> V
  %2 = divide %0, %1# : V
  %3 = multiply %arg0, %arg0# : W
  %4 = reduce(%3 init: %cst) over [0]# : (W, S) -> V
  %5 = divide %4, %1# : V
  %6 = multiply %2, %2# : V
  %7 = subtract %5, %6# : V
  %cst_1 = constant# dense<5.000000e-01> : S
  %8 = broadcast_in_dim %cst_1, dims = []# : (S) -> V
  %9 = add %7, %8# : V
  %10 = rsqrt %9# : V
  %11 = broadcast_in_dim %2, dims = [1]# : (V) -> W
  %12 = subtract %arg0, %11# : W
  %13 = broadcast_in_dim %10, dims = [1]# : (V) -> W
  %14 = multiply %12, %13# : W
  %15 = broadcast_in_dim %arg1, dims = [1]# : (V) -> W
  %16 = multiply %14, %15# : W
  %17 = broadcast_in_dim %arg1, dims = [1]# : (V) -> W
  %18 = add %16, %17# : W
  return %18, %7 : W, V
'''


def test_inference():
  """Computed in f32; its sharding goes to the result."""
  assert _body(
      'W',
      '%n = ' + _call(
          'inference',
          '%x, %s, %s, %s, %s',
          'W, V, V, V, V',
          'W',
          feature=0,
          more=', mhlo.sharding = "{replicated}"') + 'return %n : W',
      W='tensor<2x4xbf16>',
      V='tensor<2xbf16>') == '''
  %0 = convert %arg0 : (W) -> tensor<2x4xf32>
  %1 = convert %arg1 : (V) -> tensor<2xf32>
  %2 = convert %arg1 : (V) -> tensor<2xf32>
  %3 = convert %arg1 : (V) -> tensor<2xf32>
  %4 = convert %arg1 : (V) -> tensor<2xf32>
  %cst = constant dense<5.000000e-01> : tensor<f32>
  %5 = broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2xf32>
  %6 = add %4, %5 : tensor<2xf32>
  %7 = rsqrt %6 : tensor<2xf32>
  %8 = multiply %1, %7 : tensor<2xf32>
  %9 = multiply %3, %8 : tensor<2xf32>
  %10 = subtract %2, %9 : tensor<2xf32>
  %11 = broadcast_in_dim %8, dims = [0] : (tensor<2xf32>) -> tensor<2x4xf32>
  %12 = multiply %0, %11 : tensor<2x4xf32>
  %13 = broadcast_in_dim %10, dims = [0] : (tensor<2xf32>) -> tensor<2x4xf32>
  %14 = add %12, %13 : tensor<2x4xf32>
  %15 = convert %14 {mhlo.sharding = "{replicated}"} : (tensor<2x4xf32>) -> W
  return %15 : W
'''


def test_grad():
  assert _body(
      'W, V, V',
      '%n:3 = ' +
      _call('grad', '%x, %s, %s, %s, %x', 'W, V, V, V, W', 'W, V, V') +
      'return %n#0, %n#1, %n#2 : W, V, V',
      W='tensor<4x2xf64>',
      V='tensor<2xf64>') == '''
  %cst = constant dense<5.000000e-01> : tensor<f64>
  %0 = broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> V
  %1 = add %arg1, %0 : V
  %2 = rsqrt %1 : V
  %3 = broadcast_in_dim %arg1, dims = [1] : (V) -> W
  %4 = subtract %arg0, %3 : W
  %5 = multiply %arg0, %4 : W
  %cst_0 = constant dense<0.000000e+00> : tensor<f64>
  %6 = reduce(%5 init: %cst_0) over [0] : (W, tensor<f64>) -> V
  %7 = reduce(%arg0 init: %cst_0) over [0] : (W, tensor<f64>) -> V
  %8 = multiply %6, %2 : V
  %9 = broadcast_in_dim %6, dims = [1] : (V) -> W
  %10 = multiply %9, %4 : W
  %11 = broadcast_in_dim %1, dims = [1] : (V) -> W
  %12 = divide %10, %11 : W
  %cst_1 = constant dense<4.000000e+00> : tensor<f64>
  %13 = broadcast_in_dim %cst_1, dims = [] : (tensor<f64>) -> V
  %14 = broadcast_in_dim %13, dims = [1] : (V) -> W
  %15 = multiply %arg0, %14 : W
  %16 = broadcast_in_dim %7, dims = [1] : (V) -> W
  %17 = subtract %15, %16 : W
  %18 = subtract %17, %12 : W
  %19 = multiply %arg1, %2 : V
  %20 = divide %19, %13 : V
  %21 = broadcast_in_dim %20, dims = [1] : (V) -> W
  %22 = multiply %21, %18 : W
  return %22, %8, %7 : W, V, V
'''


def test_merged_dimensions():
  """Computed in the dimensions that come and go, and the mean is given in those
  that it has."""
  assert _body(
      'W, V',
      '%m = stablehlo.reshape %x : (W) -> M\n%n:3 = ' +
      _call('training', '%m, %s, %s', 'M, V, V', 'M, V, V') +
      '%y = stablehlo.reshape %n#0 : (M) -> W\nreturn %y, %n#1 : W, V',
      W='tensor<2x3x4xf32>',
      M='tensor<1x6x4xf32>',
      V='tensor<6xf32>',
      A='tensor<2x3xf32>') == '''
  %0 = reshape %arg0 : (W) -> M
  %1 = reshape %arg1 : (V) -> A
  %2 = reshape %arg1 : (V) -> A
  %cst = constant dense<0.000000e+00> : tensor<f32>
  %3 = reduce(%arg0 init: %cst) over [2] : (W, tensor<f32>) -> A
  %cst_0 = constant dense<4.000000e+00> : tensor<f32>
  %4 = broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> A
  %5 = divide %3, %4 : A
  %6 = multiply %arg0, %arg0 : W
  %7 = reduce(%6 init: %cst) over [2] : (W, tensor<f32>) -> A
  %8 = divide %7, %4 : A
  %9 = multiply %5, %5 : A
  %10 = subtract %8, %9 : A
  %cst_1 = constant dense<5.000000e-01> : tensor<f32>
  %11 = broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> A
  %12 = add %10, %11 : A
  %13 = rsqrt %12 : A
  %14 = broadcast_in_dim %5, dims = [0, 1] : (A) -> W
  %15 = subtract %arg0, %14 : W
  %16 = broadcast_in_dim %13, dims = [0, 1] : (A) -> W
  %17 = multiply %15, %16 : W
  %18 = broadcast_in_dim %1, dims = [0, 1] : (A) -> W
  %19 = multiply %17, %18 : W
  %20 = broadcast_in_dim %2, dims = [0, 1] : (A) -> W
  %21 = add %19, %20 : W
  %22 = reshape %5 : (A) -> V
  %23 = reshape %21 : (W) -> W
  return %23, %22 : W, V
'''


def test_inner_regions():
  """In a loop's body and in a function that it calls."""
  part = 'tensor<8xf32>'
  one = _call('inference', '%q, %s, %s, %s, %s',
              f'F, {part}, {part}, {part}, {part}', 'F')
  module = modules.main(
      '%x: F', 'F', f"""
    %w = stablehlo.while(%q = %x) : F
    cond {{
      %no = stablehlo.constant dense<false> : tensor<i1>
      stablehlo.return %no : tensor<i1>
    }} do {{
      %s = stablehlo.constant dense<1.0> : {part}
      %n = {one}
      %r = func.call @f(%n) : (F) -> F
      stablehlo.return %r : F
    }}
    return %w : F""", f"""
    func.func private @f(%q: F) -> F {{
      %s = stablehlo.constant dense<1.0> : {part}
      %n = {one}
      return %n : F
    }}""")
  assert batch_norm.expand(module) == 2
  assert module.operation.verify()
  assert 'batch_norm' not in modules.shown(module)


def test_sharding_of_an_inference_is_taken():
  """`extract.take` finds it where it went."""
  part = 'tensor<8xf32>'
  call = _call(
      'inference',
      '%x, %s, %s, %s, %s',
      f'F, {part}, {part}, {part}, {part}',
      'F',
      more=', mhlo.sharding = "{replicated}"')
  module = modules.main(f'%x: F, %s: {part}', 'F', f"""
    %n = {call}
    return %n : F""")
  assert batch_norm.expand(module) == 1
  sharded, = extract.take(module).sharded
  assert sharded.name == 'stablehlo.add'


def test_sharding_of_merged_dimensions():
  """What has one stays, and is what others use."""
  apart, whole, part = 'tensor<2x3x4xf32>', 'tensor<1x6x4xf32>', 'tensor<6xf32>'
  call = _call(
      'inference',
      '%m, %s, %s, %s, %s',
      f'{whole}, {part}, {part}, {part}, {part}',
      whole,
      more=', mhlo.sharding = "{replicated}"')
  module = modules.main(
      f'%x: {apart}, %s: {part}', apart, f"""
    %m = stablehlo.reshape %x : ({apart}) -> {whole}
    %n = {call}
    %y = stablehlo.reshape %n : ({whole}) -> {apart}
    return %y : {apart}""")
  assert batch_norm.expand(module) == 1
  sharded, = extract.take(module).sharded
  use, = sharded.results[0].uses
  assert (sharded.name, use.owner.name) == ('stablehlo.reshape',) * 2


@pytest.mark.parametrize('dims, dtype, more', [
    ('4x2', 'f32',
     ', mhlo.sharding = "{{replicated}, {replicated}, {replicated}}"'),
    ('4x2', 'f8E5M2', ''),
    ('?x2', 'f32', ''),
])
def test_left_as_it_is(dims, dtype, more):
  """A sharding of three values, a type of few digits, a dynamic dimension."""
  whole, part = f'tensor<{dims}x{dtype}>', f'tensor<2x{dtype}>'
  types = f'{whole}, {part}, {part}'
  call = _call('training', '%x, %s, %s', types, types, more=more)
  module = modules.main(
      f'%x: {whole}, %s: {part}', types, f"""
    %n:3 = {call}
    return %n#0, %n#1, %n#2 : {types}""")
  before = modules.shown(module)
  assert batch_norm.expand(module) == 0
  assert modules.shown(module) == before


@pytest.mark.parametrize('program, which', norms.RUNS, ids=norms.RUN_IDS)
def test_effect(program, which):
  record = norms.check(program, which)
  assert record.form == 'sdy'
