"""The forms of one program: in the dialect, in attributes, with neither."""

import mlir_modules as modules
import pytest
from torch_xla.shardy.annotate.annotation import Annotation, UserMesh
from torch_xla.shardy.stablehlo import extract, forms, to_v2
from torch_xla.shardy.stablehlo.forms import Form

pytest.importorskip('jaxlib', reason='needs jaxlib: it reads and prints MLIR')
_main, _shown, _expected = modules.main, modules.shown, modules.expected
_MESH = UserMesh.of((2, 4), ('x', 'y'))
_X = '{devices=[2,1,4]<=[8] last_tile_dim_replicate}'
_X_V1 = '{devices=[2,1,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}'
_Y = '{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}'
_Y_V1 = '{devices=[4,1,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}'


def _say(spec, priority=None) -> Annotation:
  return Annotation.of(_MESH, spec, priority)


def _module():
  """An open parameter, an intermediate, and both as results."""
  return _main(
      f'%arg0: F {{mhlo.sharding = "{_X}", jax.buffer_donor = true}}', 'F, F',
      f'''
    %b = {modules.bind(_say((0, None), (1, 4)), of=('%arg0',))}
    %n = stablehlo.negate %arg0 : F
    %k = {modules.tag(_say((1, None), (2, None)), '%n')}
    %c = {modules.sharding_call('%k', _Y)}
    return %arg0, %c : F, F''')


def _written(form: Form):
  module = _module()
  modules.lower(module)
  forms.write(module, form)
  return module


def test_sdy():
  assert _shown(_written(Form.SDY)) == _expected('''
      sdy.mesh @mesh = <["x"=2, "y"=4]>
      func.func @main(%arg0: F {jax.buffer_donor = true, \
sdy.sharding = #sdy.sharding<@mesh, [{"x"}p1, {}]>})
          -> (F, F {sdy.sharding = #sdy.sharding<@mesh, [{"y"}p2, {}]>}) {
        %0 = sdy.sharding_constraint %arg0 <@mesh, [{"x"}p1, {?}p4]> : F
        %1 = stablehlo.negate %0 : F
        %2 = sdy.sharding_constraint %1 <@mesh, [{"y"}p2, {}]> : F
        return %0, %2 : F, F
      }''')


def test_attributes():
  """As XLA's own importer reads them (round_trip_import)."""
  assert _shown(_written(Form.ATTRIBUTES)) == _expected(
      r'''
      func.func @main(%arg0: F {jax.buffer_donor = true, \
mhlo.frontend_attributes = {xla.sdy.sharding = \
"#sdy.sharding<@mesh, [{\22x\22}p1, {}]>"}})
          -> (F, F) {
        %0 = stablehlo.custom_call @Sharding(%arg0) \
{mhlo.frontend_attributes = {xla.sdy.sharding = \
"#sdy.sharding_per_value<[<@mesh, [{\22x\22}p1, {?}p4]>]>"}} : (F) -> F
        %1 = stablehlo.negate %0 : F
        %2 = stablehlo.custom_call @Sharding(%1) \
{mhlo.frontend_attributes = {xla.sdy.sharding = \
"#sdy.sharding_per_value<[<@mesh, [{\22y\22}p2, {}]>]>"}} : (F) -> F
        %3 = stablehlo.custom_call @xla.sdy.FuncResultSharding(%2) \
{has_side_effect = true, mhlo.frontend_attributes = {xla.sdy.sharding = \
"#sdy.sharding_per_value<[<@mesh, [{\22y\22}p2, {}]>]>"}} : (F) -> F
        return %0, %3 : F, F
      }'''.replace('\\\n', ''),
      header='module @m attributes {mhlo.frontend_attributes = '
      '{xla.sdy.meshes = "{mesh = #sdy.mesh<[\\22x\\22=2, \\22y\\22=4]>}"}}')


_PLAIN = '''
      func.func @main(%arg0: F {jax.buffer_donor = true})
          -> (F, F) {
        %0 = stablehlo.negate %arg0 : F
        return %arg0, %0 : F, F
      }'''


def test_plain():
  assert _shown(_written(Form.PLAIN)) == _expected(_PLAIN)


def test_remove_shardings_of_a_program_as_it_came():
  """Those of operations, results and calls, in the terms of GSPMD."""
  module = _module()
  extract.take(module)
  forms.remove_shardings(module)
  assert _shown(module) == _expected(_PLAIN)
  module = _main(
      f'%arg0: F {{mhlo.sharding = "{_X}"}}', f'F {{mhlo.sharding = "{_X}"}}',
      f'''
    %n = stablehlo.negate %arg0 {{mhlo.sharding = "{_Y}"}} : F
    return %n : F''')
  forms.remove_shardings(module)
  assert _shown(module) == _expected('''
      func.func @main(%arg0: F)
          -> F {
        %0 = stablehlo.negate %arg0 : F
        return %0 : F
      }''')


def test_frontend_attributes_of_others_are_kept():
  module = _main('%arg0: F {mhlo.frontend_attributes = {theirs = "1"}}', 'F',
                 'return %arg0 : F')
  modules.lower(module)
  forms.write(module, Form.ATTRIBUTES)
  assert ('%arg0: F {mhlo.frontend_attributes = {theirs = "1", '
          'xla.sdy.sharding = "#sdy.sharding<@mesh, [{}, {}]>"}})'
          in _shown(module))


def _v2(arguments: str, results: str, body: str):
  module = _main(arguments, results, body)
  taken = extract.take(module)
  return module, to_v2.lower(module, taken)


def test_v2():
  """Of arguments, results, operations and calls; bindings and tags go."""
  module, counts = _v2(
      f'%arg0: F {{mhlo.sharding = "{_X_V1}"}}',
      f'F {{mhlo.sharding = "{_Y_V1}"}}, tensor<f32>', f'''
    %b = {modules.bind(_say((0, None), (1, 4)), of=('%arg0',))}
    %n = stablehlo.negate %arg0 {{mhlo.sharding = "{_X_V1}"}} : F
    %k = {modules.tag(_say((1, None), (2, None)), '%n')}
    %c = {modules.sharding_call('%k', _Y_V1)}
    return %c, %b : F, tensor<f32>''')
  assert _shown(module) == _expected(f'''
      func.func @main(%arg0: F {{mhlo.sharding = "{_X}"}})
          -> (F {{mhlo.sharding = "{_Y}"}}, tensor<f32>) {{
        %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %0 = stablehlo.negate %arg0 {{mhlo.sharding = "{_X}"}} : F
        %1 = stablehlo.custom_call @Sharding(%0) \
{{mhlo.sharding = "{_Y}"}} : (F) -> F
        return %1, %cst : F, tensor<f32>
      }}''')
  assert counts == to_v2.ShardingCounts(4)


@pytest.mark.parametrize('sharding, reason', [
    ('{devices=[8,1]7,6,5,4,3,2,1,0}', 'is no reshaped and transposed iota'),
    ('{devices=[2,2,2]<=[8]}', 'rank'),
    ('{devices=[2,', 'expected tile assignment dims'),
])
def test_what_has_no_v2_goes_on_as_it_came(sharding, reason):
  module, counts = _v2(f'%arg0: F {{mhlo.sharding = "{sharding}"}}', 'F',
                       'return %arg0 : F')
  assert f'%arg0: F {{mhlo.sharding = "{sharding}"}}' in _shown(module)
  (said, count), = counts.kept
  assert count == 1 and reason in said
  assert counts.v2 == 0


def test_tuples_in_v2():
  """Leaf by leaf; one that lists devices and has an iota is enough."""
  module, counts = _v2(
      '%arg0: F', 'F', f'''
    %c:2 = stablehlo.custom_call @two(%arg0)
        {{mhlo.sharding = "{{{_X_V1}, {{replicated}}}}"}} : (F) -> (F, F)
    return %c#0 : F''')
  assert f'mhlo.sharding = "{{{_X}, {{replicated}}}}"' in _shown(module)
  assert counts == to_v2.ShardingCounts(1)


def test_pinned_results_in_v2():
  """What is said of a result, else of what gives it, else: replicated."""
  module, _ = _v2(
      f'%arg0: F {{mhlo.sharding = "{_X}"}}',
      f'F, F, F {{mhlo.sharding = "{_X}"}}', f'''
    %n = stablehlo.negate %arg0 {{mhlo.sharding = "{_Y}"}} : F
    return %n, %arg0, %n : F, F, F''')
  placements = to_v2.pin_results(module)
  assert {
      k: str(v) for k, v in placements.items()
  } == {
      0: _Y,
      1: '{replicated}',
      2: _X
  }
  assert (f'-> (F {{mhlo.sharding = "{_Y}"}}, '
          'F {mhlo.sharding = "{replicated}"}, '
          f'F {{mhlo.sharding = "{_X}"}}) {{' in _shown(module))
