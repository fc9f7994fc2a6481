"""Manual regions in MLIR: sdy.manual_computation, and as attributes."""

import manual_programs
from mlir_modules import bind, lower, main, shown
from printed import assert_printed
import processes
import pytest
import torch
from torch_xla.shardy.annotate.annotation import Annotation, UserMesh
from torch_xla.shardy.stablehlo import dialects
from torch_xla.shardy.stablehlo.forms import Form

pytest.importorskip('jaxlib', reason='needs jaxlib: it reads MLIR')

ENVIRONMENT = {}  # Beside the tests that need no child.
_MESH = UserMesh.from_devices((2, 4), ('x', 'y'))
_X = '{mhlo.sharding = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"}'
_XY = '{mhlo.sharding = "{devices=[2,4]<=[8]}"}'
_M = '{mhlo.sharding = "{manual}"}'
_L = 'tensor<4x8xf32>'


def _begin(of: str, to: str = _L, kind: str = 'F') -> str:
  return (f'stablehlo.custom_call @SPMDFullToShardShape({of}) {_M} '
          f': ({kind}) -> {to}')


def _end(of: str, to: str = 'F', kind: str = _L, at: str = _X) -> str:
  return (f'stablehlo.custom_call @SPMDShardToFullShape({of}) {at} '
          f': ({kind}) -> {to}')


def _sharding(of: str, at: str, kind: str = _L) -> str:
  return f'stablehlo.custom_call @Sharding({of}) {at} : ({kind}) -> {kind}'


def _region(form: Form = Form.SDY):
  return lower(
      main(
          f'%arg0: F {_X}, %arg1: tensor<f32>', 'F, tensor<f32>', f'''
    %t = {bind(Annotation.from_spec(_MESH, (0, None), (2, None)), of=('%arg0',))}
    %b = {_begin('%arg0')}
    %s = stablehlo.broadcast_in_dim %arg1, dims = [] :
        (tensor<f32>) -> {_L}
    %a = stablehlo.add %b, %s : {_L}
    %k = {_sharding('%a', _M)}
    %e = {_end('%k')}
    %n = stablehlo.negate %e : F
    return %n, %t : F, tensor<f32>'''),
      form=form)


def test_region():
  module, program = _region()
  assert_printed(
      shown(module), '''\
module @m {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%arg0: F {sdy.sharding = #sdy.sharding<@mesh, [{"x"}p2, {}]>},
      %arg1: tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, []>})
      -> (F, tensor<f32>) {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) ->
        tensor<4x8xf32>
    %1 = sdy.manual_computation(%arg0, %arg1) in_shardings=[<@mesh, [{"x"}, {}],
        replicated={"y"}>, <@mesh, [], replicated={"x", "y"}>]
        out_shardings=[<@mesh, [{"x"}p3, {}], replicated={"y"}>]
        manual_axes={"x", "y"} (%arg2: tensor<4x8xf32>, %arg3: tensor<f32>) {
      %3 = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<f32>) ->
          tensor<4x8xf32>
      %4 = stablehlo.add %arg2, %3 : tensor<4x8xf32>
      sdy.return %4 : tensor<4x8xf32>
    } : (F, tensor<f32>) -> F
    %2 = stablehlo.negate %1 : F
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    return %2, %cst : F, tensor<f32>
  }
}
''')
  # As it would not with a priority where a region's parameter is whole.
  dialects.run('builtin.module(sdy-import-pipeline)', module, 'cannot import')
  assert [t.sdy for t in program.tensors if t.parameter is None] == [
      '#sdy.sharding_per_value<[<@mesh, [{"x"}p3, {}], '
      'replicated={"y"}>]>'
  ] * 2


def test_region_as_attributes():
  """It has results in place of a tuple of them."""
  module, _ = _region(Form.ATTRIBUTES)
  text = dialects.text(module)
  assert 'sdy.manual_computation(' not in text and 'tuple' not in text
  assert text.count('@xla.sdy.GlobalToLocalShape(%arg0, %arg1)') == 1
  assert '-> (tensor<4x8xf32>, tensor<f32>)' in text
  assert text.count('@xla.sdy.LocalToGlobalShape(') == 1
  assert text.count('func.func private @xla.sdy.manual_computation_body') == 1
  assert text.count('{inlineable = "false"}') == 1
  assert text.count('xla.sdy.manual_axes = "#sdy<manual_axes{\\22x\\22, '
                    '\\22y\\22}>"') == 2


def _as_attributes(names):
  """The programs for a plugin that does not know the dialect."""
  from torch_xla.shardy.stablehlo import target
  target._form = lambda plugin, version: (Form.ATTRIBUTES, 'the test says so')
  return manual_programs.run(names)


@pytest.fixture(name='ran', scope='module')
def ran_fixture(request):
  names = sorted({
      item.callspec.params['name']
      for item in request.session.items
      if item.path == request.path and
      'name' in getattr(getattr(item, 'callspec', None), 'params', {})
  })
  return {
      which: processes.call(function, names, **environment).value
      for which, function, environment in (('HLO', manual_programs.run,
                                            manual_programs.SHARDY),
                                           ('sdy', manual_programs.run,
                                            manual_programs.STABLEHLO),
                                           ('attributes', _as_attributes,
                                            manual_programs.STABLEHLO))
  }


@pytest.mark.slow
@pytest.mark.parametrize('name', [
    pytest.param(name, marks=[pytest.mark.nightly] * (name != 'uneven'))
    for name in manual_programs.PROGRAMS
])
def test_as_hlo(name, ran):
  """Which is as GSPMD's, bit by bit: `manual_test`."""
  for which, marker in (('sdy', b'manual_computation'),
                        ('attributes', b'xla.sdy.manual_computation_body')):
    one = ran[which][name]
    assert set(one.programs) == {('shardy', '', '')}
    assert any(marker in text for text in one.texts)
    for result, other in zip(one.results, ran['HLO'][name].results):
      assert torch.equal(result, other)
