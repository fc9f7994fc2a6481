"""The forms of one program: in the dialect, in attributes, with neither."""

import re

import mlir_modules as modules
import numpy as np
from printed import assert_printed
import pytest
import torch
from torch_xla.shardy.annotate.annotation import Annotation, UserMesh
from torch_xla.shardy.rewrite import extract
from torch_xla.shardy.stablehlo import calls, composites, dialects, pins
from torch_xla.shardy.stablehlo.forms import Form
from torch_xla.shardy.v2 import to_v2

pytest.importorskip('jaxlib', reason='needs jaxlib: it reads and prints MLIR')
_main, _shown = modules.main, modules.shown
_MESH = UserMesh.from_devices((2, 4), ('x', 'y'))
_X = '{devices=[2,1,4]<=[8] last_tile_dim_replicate}'
_Y = '{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}'


def _say(spec, priority=None) -> Annotation:
  return Annotation.from_spec(_MESH, spec, priority)


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


def _written(form: Form) -> str:
  return _shown(modules.lower(_module(), form=form)[0])


def test_sdy():
  assert_printed(
      _written(Form.SDY), '''\
module @m {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%arg0: F {jax.buffer_donor = true, sdy.sharding =
      #sdy.sharding<@mesh, [{"x"}p1, {}]>})
      -> (F, F {sdy.sharding = #sdy.sharding<@mesh, [{"y"}p2, {}]>}) {
    %0 = sdy.sharding_constraint %arg0 <@mesh, [{"x"}p1, {?}p4]> : F
    %1 = stablehlo.negate %0 : F
    %2 = sdy.sharding_constraint %1 <@mesh, [{"y"}p2, {}]> : F
    return %0, %2 : F, F
  }
}
''')


def test_attributes():
  """XLA's own importer reads them so (round_trip_import)."""
  assert_printed(
      _written(Form.ATTRIBUTES), '''\
module @m attributes {mhlo.frontend_attributes = {xla.sdy.meshes = "{mesh =
    #sdy.mesh<[\\22x\\22=2, \\22y\\22=4]>}"}} {
  func.func @main(%arg0: F {jax.buffer_donor = true, mhlo.frontend_attributes =
      {xla.sdy.sharding = "#sdy.sharding<@mesh, [{\\22x\\22}p1, {}]>"}})
      -> (F, F) {
    %0 = stablehlo.custom_call @Sharding(%arg0) {backend_config = "",
        mhlo.frontend_attributes = {xla.sdy.sharding =
        "#sdy.sharding_per_value<[<@mesh, [{\\22x\\22}p1, {?}p4]>]>"}} : (F) -> F
    %1 = stablehlo.negate %0 : F
    %2 = stablehlo.custom_call @Sharding(%1) {backend_config = "",
        mhlo.frontend_attributes = {xla.sdy.sharding =
        "#sdy.sharding_per_value<[<@mesh, [{\\22y\\22}p2, {}]>]>"}} : (F) -> F
    %3 = stablehlo.custom_call @xla.sdy.FuncResultSharding(%2) {backend_config =
        "", mhlo.frontend_attributes = {xla.sdy.sharding =
        "#sdy.sharding_per_value<[<@mesh, [{\\22y\\22}p2, {}]>]>"}} : (F) -> F
    return %0, %3 : F, F
  }
}
''')


def test_plain():
  """The program has shardings of arguments, results, operations and calls."""
  program = modules.in_hlo(_module())
  extract.extract_annotations(program)
  assert_printed(
      _shown(modules.in_form(program, Form.PLAIN)), '''\
module @m {
  func.func @main(%arg0: F {jax.buffer_donor = true})
      -> (F, F) {
    %0 = stablehlo.negate %arg0 : F
    return %arg0, %0 : F, F
  }
}
''')


def test_plain_has_erf_as_a_composite():
  """Made of StableHLO; one function for each type, named in their order."""
  from jaxlib.mlir import ir
  from jaxlib.mlir.dialects import stablehlo
  x = torch.cat([torch.linspace(-5, 5, 21), torch.tensor([0., np.inf, np.nan])])
  kind, half = 'tensor<24xf32>', 'tensor<24xbf16>'

  def erf(of: str, kind: str) -> str:
    return (f'stablehlo.custom_call @mhlo.erf({of}) {{mhlo.attributes = {{}}, '
            f'mhlo.version = 1 : i64}} : ({kind}) -> {kind}')

  module = modules.in_form(
      modules.in_hlo(
          _main(
              f'%x: {kind}', f'{kind}, {kind}, {half}', f"""
    %h = stablehlo.convert %x : ({kind}) -> {half}
    %e = {erf('%h', half)}
    %a = {erf('%x', kind)}
    %b = {erf('%a', kind)}
    return %a, %b, %e : {kind}, {kind}, {half}""")), Form.PLAIN)
  text = dialects.text(module)
  assert re.findall(
      r'composite "chlo.erf" .*decomposition = @(\S+),',
      text) == ['chlo.erf.impl', 'chlo.erf.impl', 'chlo.erf.impl_1']
  assert re.findall(r'func private @(\S+)\(%arg0: (\S+)\)',
                    text) == [('chlo.erf.impl', kind),
                              ('chlo.erf.impl_1', half)]
  assert {o.name.split('.')[0] for o in dialects.operations_of(module)
         } == {'builtin', 'func', 'stablehlo'}
  assert 'mhlo' not in text
  module = dialects.read(dialects.write(module, dialects.cautious_version()))
  with dialects.scope(module):
    once, twice, rounded = stablehlo.eval_module(
        module, [ir.DenseElementsAttr.get(x.numpy())])
    assert str(rounded.type) == half
  for made, wanted in (once, x.erf()), (twice, x.erf().erf()):
    np.testing.assert_allclose(np.array(made), wanted, atol=5e-7)


def test_erf_of_a_dynamic_dimension():
  kind = 'tensor<?x8xf32>'
  module = _main(
      f'%x: {kind}', kind, f"""
    %e = stablehlo.custom_call @mhlo.erf(%x) : ({kind}) -> {kind}
    return %e : {kind}""")
  composites.write(module)
  assert module.operation.verify()
  text = dialects.text(module)
  assert 'func private @chlo.erf.impl(' in text and ' shape.' not in text


def test_frontend_attributes_of_others_are_kept():
  module, _ = modules.lower(
      _main('%arg0: F {mhlo.frontend_attributes = {theirs = "1"}}', 'F',
            'return %arg0 : F'),
      form=Form.ATTRIBUTES)
  assert ('%arg0: F {mhlo.frontend_attributes = {theirs = "1", '
          'xla.sdy.sharding = "#sdy.sharding<@mesh, [{}, {}]>"}})'
          in _shown(module))


def _v2(arguments: str, results: str, body: str):
  program = modules.in_hlo(_main(arguments, results, body))
  extract.extract_annotations(program)
  return program, to_v2.emit_in_place(program)[1]


def test_pinned_results_in_v2():
  """What is said of a result, else of what gives it, else: replicated."""
  program, _ = _v2(
      f'%arg0: F {{mhlo.sharding = "{_X}"}}',
      f'F, F, F {{mhlo.sharding = "{_X}"}}', f'''
    %n = stablehlo.negate %arg0 {{mhlo.sharding = "{_Y}"}} : F
    return %n, %arg0, %n : F, F, F''')
  placements = pins.pin_v2(program)
  assert {
      k: str(v) for k, v in placements.items()
  } == {
      0: _Y,
      1: '{replicated}',
      2: _X
  }
  text = _shown(modules.in_form(program, None))
  assert text.count('@Sharding') == 3 and text.count('{replicated}') == 1


def test_a_program_without_our_calls():
  """It is handed on so where jaxlib cannot convert it, and printed so."""
  text = _main(
      '%arg0: F, %arg1: F', 'F, tensor<f32>', f'''
    %b = {modules.bind(_say((0, None)), _say((1, None)), of=('%arg0', '%arg1'))}
    %k = {modules.tag(_say((1, None)), '%arg1')}
    %n = stablehlo.negate %k : F
    return %n, %b : F, tensor<f32>''')
  program = dialects.text(text).encode()
  handed_on = calls.strip(program).decode()
  assert 'torch_xla' not in handed_on and handed_on.count('%arg') == 3
  assert 'return %0, %cst' in handed_on
  printed = calls.strip(program, trims=True).decode()
  assert 'torch_xla' not in printed and printed.count('%arg') == 2
  assert 'return %0 : ' in printed
  # What is said of the tensors that it has is still in it.
  exported = calls.trim_program(program, {}, lambda of: ())[0].decode()
  assert exported.count('shardy.bind') == exported.count('shardy.tag') == 1
