"""Programs of many parameters, which torch_xla wraps in another function."""

from mlir_modules import read, shown
import pytest
from torch_xla.shardy.stablehlo import dialects
from torch_xla.shardy.stablehlo.wrapper import unwrap

_INNER = '''
  func.func private @f(%a: F {mhlo.sharding = "{devices=[8,1]<=[8]}"}, %b: F)
      -> (F, F) {
    %0 = stablehlo.add %a, %b : F
    return %0, %b : F, F
  }'''
_TUPLED = '''
  func.func private @f(%a: F {mhlo.sharding = "{devices=[8,1]<=[8]}"}, %b: F)
      -> (tuple<F, F> {mhlo.sharding = "{{devices=[8,1]<=[8]}, {replicated}}"}) {
    %0 = stablehlo.add %a, %b : F
    %1 = stablehlo.tuple %0, %b : tuple<F, F>
    return %1 : tuple<F, F>
  }'''
_MAIN = '''
  func.func @main(%a: F {jax.buffer_donor = true}, %b: F) -> (F, F) {
    %0:2 = call @f(%a, %b) : (F, F) -> (F, F)
    return %0#0, %0#1 : F, F
  }'''
_MAIN_OF_TUPLE = '''
  func.func @main(%a: F, %b: F) -> (F, F) {
    %0 = call @f(%a, %b) : (F, F) -> tuple<F, F>
    %1 = stablehlo.get_tuple_element %0[0] : (tuple<F, F>) -> F
    %2 = stablehlo.get_tuple_element %0[1] : (tuple<F, F>) -> F
    return %1, %2 : F, F
  }'''


def _unwrapped(*functions: str) -> str:
  module = read('module @m {' + '\n'.join(functions) + '\n}')
  unwrap(module)
  assert module.operation.verify()
  return dialects.text(module)


@pytest.mark.parametrize('functions', [(_MAIN, _INNER),
                                       (_MAIN_OF_TUPLE, _TUPLED)])
def test_the_function_that_main_calls_becomes_main(functions):
  text = _unwrapped(*functions)
  assert text.count('func.func') == 1 and 'call' not in text
  assert 'func.func @main(%arg0: tensor<8x8xf32> {' in text
  assert 'tuple' not in text
  assert text.count('mhlo.sharding = "{devices=[8,1]<=[8]}"') == (
      2 if 'tuple' in functions[1] else 1)
  assert ('jax.buffer_donor' in text) == (functions[0] is _MAIN)
  assert 'return %0, %arg1 : tensor<8x8xf32>, tensor<8x8xf32>' in text


@pytest.mark.parametrize(
    'changed', [
        _MAIN.replace('(%a, %b) :', '(%b, %a) :'),
        _MAIN.replace('%0#0, %0#1', '%0#1, %0#0'),
        _MAIN.replace('%0:2', '%c = stablehlo.sine %a : F\n%0:2'),
        _MAIN_OF_TUPLE.replace('%1, %2', '%2, %1'),
        _MAIN + _MAIN.replace('@main', 'private @other'),
    ],
    ids=['arguments', 'results', 'operations', 'elements', 'callers'])
def test_what_is_more_than_a_wrapper_must_not_pass_for_one(changed):
  inner = _TUPLED if 'tuple' in changed else _INNER
  with pytest.raises(
      dialects.ProgramTextError, match='said of the function f, which main'):
    _unwrapped(changed, inner)


def test_functions_without_shardings_are_let_be():
  plain = _INNER.replace(' {mhlo.sharding = "{devices=[8,1]<=[8]}"}', '')
  swapped = _MAIN.replace('(%a, %b) :', '(%b, %a) :')
  module = read(f'module @m {{{swapped}{plain}}}')
  before = shown(module)
  unwrap(module)
  assert shown(module) == before
