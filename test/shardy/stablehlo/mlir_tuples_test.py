"""Functions that give tuples, as torch_xla's loops call them, for Shardy."""

import mlir_modules as modules
import pytest
from torch_xla.shardy.stablehlo import tuples

pytest.importorskip('jaxlib', reason='needs jaxlib: it reads and prints MLIR')
_PAIR = 'tuple<F, tensor<f32>>'


def _flat(body: str, others: str, results: str = 'F') -> str:
  module = modules.main('%arg0: F, %arg1: tensor<f32>', results, body, others)
  tuples.flatten(module)
  assert module.operation.verify()
  return modules.shown(module)


def test_results():
  assert _flat(
      f'''
    %r = func.call @f(%arg0, %arg1) {{xla_shape = "(f32[8,8], f32[])"}}
        : (F, tensor<f32>) -> {_PAIR}
    %a = stablehlo.get_tuple_element %r[0] : ({_PAIR}) -> F
    return %a : F''', f'''
    func.func private @f(%a: F, %b: tensor<f32>) -> {_PAIR} {{
      %n = stablehlo.negate %a : F
      %t = stablehlo.tuple %n, %b {{xla_shape = "(f32[8,8], f32[])"}} : {_PAIR}
      return %t : {_PAIR}
    }}''') == modules.expected('''
      func.func private @f(%arg0: F,
          %arg1: tensor<f32>)
          -> (F, tensor<f32>) {
        %0 = stablehlo.negate %arg0 : F
        return %0, %arg1 : F, tensor<f32>
      }
      func.func @main(%arg0: F,
          %arg1: tensor<f32>)
          -> F {
        %0:2 = call @f(%arg0, %arg1) : (F, tensor<f32>) -> (F, tensor<f32>)
        return %0#0 : F
      }''')


def test_arguments_and_tuples_in_tuples():
  """A call of a call; the inner one's result is handed on as it is."""
  nested = f'tuple<{_PAIR}, F>'
  assert _flat(
      f'''
    %p = stablehlo.tuple %arg0, %arg1 : {_PAIR}
    %r = func.call @outer(%arg1, %p, %arg0) : (tensor<f32>, {_PAIR}, F)
        -> {nested}
    %q = stablehlo.get_tuple_element %r[0] : ({nested}) -> {_PAIR}
    %b = stablehlo.get_tuple_element %q[1] : ({_PAIR}) -> tensor<f32>
    %a = stablehlo.get_tuple_element %r[1] : ({nested}) -> F
    return %a, %b : F, tensor<f32>''',
      f'''
    func.func private @outer(%s: tensor<f32>, %p: {_PAIR}, %a: F)
        -> {nested} {{
      %i = func.call @inner(%p) : ({_PAIR}) -> {_PAIR}
      %t = stablehlo.tuple %i, %a : {nested}
      return %t : {nested}
    }}
    func.func private @inner(%p: {_PAIR}) -> {_PAIR} {{
      return %p : {_PAIR}
    }}''',
      results='F, tensor<f32>') == modules.expected('''
      func.func private @outer(%arg0: tensor<f32>,
          %arg1: F,
          %arg2: tensor<f32>,
          %arg3: F)
          -> (F, tensor<f32>, F) {
        %0:2 = call @inner(%arg1, %arg2) : (F, tensor<f32>) -> (F, tensor<f32>)
        return %0#0, %0#1, %arg3 : F, tensor<f32>, F
      }
      func.func private @inner(%arg0: F,
          %arg1: tensor<f32>)
          -> (F, tensor<f32>) {
        return %arg0, %arg1 : F, tensor<f32>
      }
      func.func @main(%arg0: F,
          %arg1: tensor<f32>)
          -> (F, tensor<f32>) {
        %0:3 = call @outer(%arg1, %arg0, %arg1, %arg0) \
: (tensor<f32>, F, tensor<f32>, F) -> (F, tensor<f32>, F)
        return %0#2, %0#1 : F, tensor<f32>
      }''')


def test_in_a_loop():
  """As the body of a scan is called; other attributes of the call stay."""
  text = _flat(
      '''
    %w = stablehlo.while(%q = %arg0) : F
    cond {
      %no = stablehlo.constant dense<false> : tensor<i1>
      stablehlo.return %no : tensor<i1>
    } do {
      %r = func.call @f(%q) {theirs = 1 : i32} : (F) -> tuple<F>
      %a = stablehlo.get_tuple_element %r[0] : (tuple<F>) -> F
      stablehlo.return %a : F
    }
    return %w : F''', '''
    func.func private @f(%a: F) -> tuple<F> {
      %t = stablehlo.tuple %a : tuple<F>
      return %t : tuple<F>
    }''')
  assert 'tuple' not in text
  assert '= func.call @f(%iterArg) {theirs = 1 : i32} : (F) -> F' in text


def test_tuples_that_are_used_as_such_are_kept():
  """And a function that is not a call's alone."""
  text = _flat(
      '''
    %r = func.call @f(%arg0) : (F) -> tuple<F>
    %c = stablehlo.custom_call @theirs(%r) : (tuple<F>) -> F
    %d = stablehlo.custom_call @sorts(%arg0) {called_computations = [@g]}
        : (F) -> F
    %s = func.call @g(%d) : (F) -> tuple<F>
    return %c : F''', '''
    func.func private @f(%a: F) -> tuple<F> {
      %t = stablehlo.tuple %a : tuple<F>
      return %t : tuple<F>
    }
    func.func private @g(%a: F) -> tuple<F> {
      %t = stablehlo.tuple %a : tuple<F>
      return %t : tuple<F>
    }''')
  assert 'call @f(%arg0) : (F) -> F' in text
  assert 'stablehlo.tuple %0 : tuple<F>' in text
  assert 'custom_call @theirs(%1) : (tuple<F>) -> F' in text
  assert 'call @g(%3) : (F) -> tuple<F>' in text


def test_attributes_of_arguments():
  """Those of tuples go, the others stay with their own."""
  text = _flat(
      f'''
    %p = stablehlo.tuple %arg0, %arg1 : {_PAIR}
    %r = func.call @f(%p, %arg0) : ({_PAIR}, F) -> F
    return %r : F''', f'''
    func.func private @f(%p: {_PAIR} {{x.y = 1 : i32}}, %a: F {{x.z = 2 : i32}})
        -> F {{
      return %a : F
    }}''')
  assert '''@f(%arg0: F,
      %arg1: tensor<f32>,
      %arg2: F {x.z = 2 : i32})''' in text


def test_main_is_left():
  body = '''
    %t = stablehlo.tuple %arg0 : tuple<F>
    return %t : tuple<F>'''
  module = modules.main('%arg0: F', 'tuple<F>', body)
  before = modules.shown(module)
  tuples.flatten(module)
  assert modules.shown(module) == before
