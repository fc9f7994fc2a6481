"""Programs in MLIR as they leave, lowered in HLO, as MLIR prints them.

What is said where is tested of HLO: `sdy.to_sdy_test`. Here it is that nothing
of a program is lost on the way there and back.
"""

import mlir_modules as modules
from printed import assert_printed
import pytest
from torch_xla.shardy.annotate.annotation import Annotation, UserMesh
from torch_xla.shardy.rewrite import (extract, to_sdy, untuple)
from torch_xla.shardy.stablehlo import conversion, dialects, pins

pytest.importorskip('jaxlib', reason='needs jaxlib: it reads and prints MLIR')
_bind, _tag, _constrain = modules.bind, modules.tag, modules.sharding_call
_main, _shown = modules.main, modules.shown
_MESH = UserMesh.from_devices((2, 4), ('x', 'y'))
_X = '{devices=[2,1,4]<=[8] last_tile_dim_replicate}'
_Y = '{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}'
_MINOR_X = '{devices=[1,2,4]<=[8] last_tile_dim_replicate}'
_AT_X, _AT_Y, _AT_MINOR_X = (
    f'{{mhlo.sharding = "{s}"}}' for s in (_X, _Y, _MINOR_X))


def _say(spec, priority=None) -> Annotation:
  return Annotation.from_spec(_MESH, spec, priority)


def _arguments(*placed: str) -> str:
  """Arguments of type F with these attributes."""
  return ', '.join(f'%arg{i}: F {at}' for i, at in enumerate(placed))


def _lowered(arguments: str, results: str, body: str, others: str = ''):
  """The text of what becomes of a program, and what it says."""
  module, told = modules.lower(_main(arguments, results, body, others))
  return _shown(module), told


@pytest.mark.parametrize('results, returned, pinned', [
    (f'F {_AT_Y}', '%c', '[{"y"}, {}]'),
    ('F {mhlo.sharding = "{replicated}"}', '%arg0', '[{}, {}]'),
])
def test_sharding_of_a_result(results, returned, pinned):
  """It goes before that of what is returned; nothing need compute it."""
  text, told = _lowered(
      _arguments(_AT_X), results, f'''
    %c = {_constrain('%arg0', _X)}
    return {returned} : F''')
  said = pinned.replace('x', 'axis_0').replace('y', 'axis_1')
  assert f'-> (F {{sdy.sharding = #sdy.sharding<@mesh, {said}>}}) {{' in text
  assert list(told.results) == [0]


def test_results_of_plugins_that_do_not_tell():
  """Those that are not pinned yet are: replicated. An array's alone."""
  program = modules.in_hlo(
      _main(
          _arguments(_AT_X), 'F, F, tensor<f32>, !stablehlo.token', f'''
    %k = {_tag(_say((1, None), (None, 3)), '%arg0')}
    %c = {_constrain('%k', _Y)}
    %n = stablehlo.negate %c : F
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %t = stablehlo.create_token : !stablehlo.token
    return %n, %c, %z, %t : F, F, tensor<f32>, !stablehlo.token'''))
  told = to_sdy.lower_shardings(program, extract.extract_annotations(program),
                                8)
  placements = pins.pin_sdy(program, told)
  assert _shown(modules.in_form(program)).splitlines()[3] == (
      '      -> (F {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, '
      'F {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}, '
      'tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, []>}, '
      '!stablehlo.token) {')
  assert [(n, str(p)) for n, p in placements.items()] == [(0, '{replicated}'),
                                                          (1, _Y),
                                                          (2, '{replicated}')]


def test_a_tensor_without_elements():
  """jaxlib takes it for a constant."""
  empty = 'tensor<0x8xf32>'
  module, told = modules.lower(
      modules.read(f'''module {{
        func.func @main(%a: {empty} {_AT_MINOR_X}) -> {empty} {{
          %c = stablehlo.custom_call @Sharding(%a) {_AT_MINOR_X}
              : ({empty}) -> {empty}
          return %c : {empty}
        }}}}'''))
  assert list(told.results) == [0]
  text = _shown(module)
  assert text.count('sdy.sharding_constraint') == 1
  assert 'has_side_effect' not in text


def test_loop_and_a_function_that_it_calls():
  """Constraints within; a call gives results, and no tuple of them."""
  text, told = _lowered(
      _arguments(_AT_X),
      'F',
      '''
    %z = stablehlo.constant dense<0> : tensor<i64>
    %three = stablehlo.constant dense<3> : tensor<i64>
    %w:2 = stablehlo.while(%i = %z, %q = %arg0) : tensor<i64>, F
    cond {
      %no = stablehlo.compare LT, %i, %three
          : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %no : tensor<i1>
    } do {
      %r = func.call @f(%i, %q) : (tensor<i64>, F) -> tuple<tensor<i64>, F>
      %j = stablehlo.get_tuple_element %r[0]
          : (tuple<tensor<i64>, F>) -> tensor<i64>
      %y = stablehlo.get_tuple_element %r[1] : (tuple<tensor<i64>, F>) -> F
      stablehlo.return %j, %y : tensor<i64>, F
    }
    return %w#1 : F''',
      others=f'''
    func.func private @f(%i: tensor<i64>, %q: F) -> tuple<tensor<i64>, F> {{
      %one = stablehlo.constant dense<1> : tensor<i64>
      %j = stablehlo.add %i, %one : tensor<i64>
      %s = stablehlo.sine %q : F
      %k = {_tag(_say((0, None), (3, None)), '%s')}
      %c = {_constrain('%k', _X)}
      %t = stablehlo.tuple %j, %c : tuple<tensor<i64>, F>
      return %t : tuple<tensor<i64>, F>
    }}''')
  assert text.count('sdy.sharding_constraint') == 1 and '{"x"}p3' in text
  assert 'tuple' not in text and 'stablehlo.while' in text
  assert told.results == {}


def test_what_is_kept():
  """Composites and their attributes, donation, names, and float8."""
  module, _ = modules.lower(
      _main(
          f'%arg0: F {{mhlo.sharding = "{_X}", jax.buffer_donor = true}} '
          'loc("weight"), %arg1: tensor<4xf8E5M2>', 'F, tensor<4xf8E5M2>', '''
    %0 = stablehlo.composite "my.gelu" %arg0 {composite_attributes =
        {k = 1 : i64, how = "tanh"}, decomposition = @gelu, version = 2 : i32}
        : (F) -> F
    %1 = stablehlo.sine %0 : F loc("layer")
    return %1, %arg1 : F, tensor<4xf8E5M2>''', '''
    func.func private @gelu(%a: F) -> F {
      %0 = stablehlo.tanh %a : F
      return %0 : F
    }'''))
  text = _shown(module)
  assert text.count('func.func') == 2  # jaxlib copies decompositions.
  assert ('stablehlo.composite "my.gelu" %arg0 {composite_attributes = '
          '{how = "tanh", k = 1 : i64}') in text and 'version = 2 : i32' in text
  assert '%arg0: F {jax.buffer_donor = true, sdy.sharding' in text
  assert '%arg1: tensor<4xf8E5M2>' in text
  told = module.operation.get_asm(enable_debug_info=True)
  assert 'loc("weight")' in told and 'loc("layer")' in told


@pytest.mark.parametrize('operation', ['erf', 'topk'])
def test_what_stablehlo_lacks_is_a_custom_call(operation):
  """`_XLAC` writes it so, too: no dialect that a plugin need not know."""
  attributes = '{}' if operation == 'erf' else '{k = 2 : i64, largest = true}'
  results = 'F' if operation == 'erf' else '(tensor<8x2xf32>, tensor<8x2xi32>)'
  kinds = results.strip('()')
  many = ':2' if operation == 'topk' else ''
  text, _ = _lowered(
      _arguments(''), kinds, f'''
    %e{many} = stablehlo.custom_call @mhlo.{operation}(%arg0)
        {{mhlo.attributes = {attributes}, mhlo.version = 1 : i64}}
        : (F) -> {results}
    return {'%e#0, %e#1' if many else '%e'} : {kinds}''')
  assert f'stablehlo.custom_call @mhlo.{operation}(%arg0)' in text
  assert f'mhlo.attributes = {attributes}, mhlo.version = 1' in text


_WRAPPED = f'''
    func.func private @f(%a: F {_AT_X}, %b: F)
        -> (tuple<F, F> {{mhlo.sharding = "{{{_X}, {{replicated}}}}"}}) {{
      %0 = stablehlo.add %a, %b : F
      %1 = stablehlo.tuple %0, %b : tuple<F, F>
      return %1 : tuple<F, F>
    }}'''
_MAIN = '''
    %0 = call @f(%a, %b) : (F, F) -> tuple<F, F>
    %1 = stablehlo.get_tuple_element %0[0] : (tuple<F, F>) -> F
    %2 = stablehlo.get_tuple_element %0[1] : (tuple<F, F>) -> F
    return %1, %2 : F, F'''


def _unwrapped(body: str):
  program = modules.in_hlo(
      _main('%a: F {jax.buffer_donor = true}, %b: F', 'F, F', body, _WRAPPED))
  untuple.unwrap(program)
  return program


def test_the_function_that_main_merely_calls_is_the_program():
  """It is so from 3,200 parameters on; their shardings are said of it."""
  program = _unwrapped(_MAIN)
  assert len(program.computations) == 1
  told = to_sdy.lower_shardings(program, extract.extract_annotations(program),
                                8)
  assert_printed(
      _shown(modules.in_form(program)), '''\
module @m {
  sdy.mesh @mesh = <["axis_0"=2, "axis_1"=4]>
  func.func @main(%arg0: F {jax.buffer_donor = true, sdy.sharding =
      #sdy.sharding<@mesh, [{"axis_0"}, {}]>},
      %arg1: F {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>})
      -> (F {sdy.sharding = #sdy.sharding<@mesh, [{"axis_0"}, {}]>}, F
          {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
    %0 = stablehlo.add %arg0, %arg1 : F
    %1 = sdy.sharding_constraint %0 <@mesh, [{"axis_0"}, {}]> : F
    %2 = sdy.sharding_constraint %arg1 <@mesh, [{}, {}]> : F
    return %1, %2 : F, F
  }
}
''')
  assert sorted(told.results) == [0, 1]


@pytest.mark.parametrize('body', [
    _MAIN.replace('(%a, %b) :', '(%b, %a) :'),
    _MAIN.replace('return %1, %2', 'return %2, %1'),
    _MAIN.replace('return %1, %2',
                  '%s = stablehlo.sine %2 : F\n return %1, %s'),
])
def test_what_is_more_than_a_wrapper_must_not_pass_for_one(body):
  assert len(_unwrapped(body).computations) == 2


@pytest.mark.parametrize('sharding, message', [
    ('{devices=[2,', 'a sharding that is not understood'),
    ('{devices=[2,2,2]<=[8]}', 'cannot convert a program to HLO'),
])
def test_a_damaged_sharding_is_not_passed_over(sharding, message):
  module = _main(f'%arg0: F {{mhlo.sharding = "{sharding}"}}', 'F',
                 'return %arg0 : F')
  with pytest.raises(dialects.ProgramTextError, match=message):
    conversion.to_hlo(module)
