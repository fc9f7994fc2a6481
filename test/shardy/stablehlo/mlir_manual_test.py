"""Manual regions in MLIR: sdy.manual_computation, and as attributes."""

import manual_programs
from mlir_modules import bind, expected, lower, main, shown
import processes
import pytest
import torch
from torch_xla.shardy.annotate.annotation import Annotation, UserMesh
from torch_xla.shardy.sdy.manual import ManualShardingError
from torch_xla.shardy.sdy.mesh_axes import InexpressibleError
from torch_xla.shardy.stablehlo import dialects, forms
from torch_xla.shardy.stablehlo.forms import Form

pytest.importorskip('jaxlib', reason='needs jaxlib: it reads MLIR')

ENVIRONMENT = {}  # Beside the tests that need no child.
_MESH = UserMesh.of((2, 4), ('x', 'y'))
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
  module = main(
      f'%arg0: F {_X}, %arg1: tensor<f32>', 'F, tensor<f32>', f'''
    %c = stablehlo.constant dense<2.0> : {_L}
    %t = {bind(Annotation.of(_MESH, (0, None), (2, None)), of=('%arg0',))}
    %b = {_begin('%arg0')}
    %m = stablehlo.multiply %b, %c : {_L}
    %s = stablehlo.broadcast_in_dim %arg1, dims = [] :
        (tensor<f32>) -> {_L}
    %a = stablehlo.add %m, %s : {_L}
    %k = {_sharding('%a', _M)}
    %e = {_end('%k')}
    %n = stablehlo.negate %e : F
    return %n, %t : F, tensor<f32>''')
  program = lower(module)
  forms.write(module, form)
  assert module.operation.verify()
  return module, program


def test_region():
  module, program = _region()
  assert shown(module) == expected(f'''
      sdy.mesh @mesh = <["x"=2, "y"=4]>
      func.func @main(%arg0: F {{sdy.sharding = #sdy.sharding<@mesh, \
[{{"x"}}p2, {{}}]>}},
          %arg1: tensor<f32> {{sdy.sharding = #sdy.sharding<@mesh, []>}})
          -> (F, tensor<f32>) {{
        %cst = stablehlo.constant dense<2.000000e+00> : {_L}
        %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : \
(tensor<f32>) -> {_L}
        %1 = sdy.manual_computation(%arg0, %arg1) in_shardings=[<@mesh, \
[{{"x"}}p3, {{}}], replicated={{"y"}}>, <@mesh, [], replicated={{"x", "y"}}>] \
out_shardings=[<@mesh, [{{"x"}}p3, {{}}], replicated={{"y"}}>] \
manual_axes={{"x", "y"}} (%arg2: {_L}, %arg3: tensor<f32>) {{
          %cst_1 = stablehlo.constant dense<2.000000e+00> : {_L}
          %3 = stablehlo.broadcast_in_dim %arg3, dims = [] : \
(tensor<f32>) -> {_L}
          %4 = stablehlo.multiply %arg2, %cst_1 : {_L}
          %5 = stablehlo.add %4, %3 : {_L}
          sdy.return %5 : {_L}
        }} : (F, tensor<f32>) -> F
        %2 = stablehlo.negate %1 : F
        return %2, %cst_0 : F, tensor<f32>
      }}''')
  assert [t.sdy for t in program.tensors if t.parameter is None] == [
      '#sdy.sharding_per_value<[<@mesh, [{"x"}p3, {}], '
      'replicated={"y"}>]>'
  ] * 2


def test_region_as_attributes():
  module, _ = _region(Form.ATTRIBUTES)
  text = dialects.text(module)
  assert 'sdy.manual_computation(' not in text and 'sdy.return' not in text
  assert text.count('@xla.sdy.GlobalToLocalShape(%arg0, %arg1)') == 1
  assert ('call @xla.sdy.manual_computation_body(%1#0, %1#1) '
          '{mhlo.frontend_attributes = {inlineable = "false"}}') in text
  assert text.count('@xla.sdy.LocalToGlobalShape(') == 1
  assert ('func.func private @xla.sdy.manual_computation_body('
          f'%arg0: {_L}, %arg1: tensor<f32>) -> {_L} {{') in text
  assert text.count('xla.sdy.manual_axes = "#sdy<manual_axes{\\22x\\22, '
                    '\\22y\\22}>"') == 2


def test_loop_that_uses_what_is_around_it():
  """Its body takes a value of the region, one from outside, and a constant."""
  module = main(
      f'%arg0: F {_X}, %arg1: {_L}', 'F', f'''
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %b = {_begin('%arg0')}
    %w:2 = stablehlo.while(%i = %zero, %v = %b) : tensor<i32>, {_L}
      cond {{
        %p = stablehlo.compare LT, %i, %three :
            (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      }} do {{
        %n = stablehlo.add %i, %one : tensor<i32>
        %x = stablehlo.add %v, %arg1 : {_L}
        %y = stablehlo.add %x, %b : {_L}
        stablehlo.return %n, %y : tensor<i32>, {_L}
      }}
    %e = {_end('%w#1')}
    return %e : F''')
  lower(module)
  assert module.operation.verify()
  text = dialects.text(module)
  before, inside = text.split('sdy.manual_computation')
  assert inside.startswith('(%arg0, %arg1) ')
  assert '(%arg2: tensor<4x8xf32>, %arg3: tensor<4x8xf32>) {' in inside
  # The region's constants are its own; what was around it is its argument.
  for number in 0, 1, 3:
    assert inside.count(f'dense<{number}>') == before.count(
        f'dense<{number}>') == 1
  assert ' = stablehlo.add %iterArg_' in inside
  assert inside.count(', %arg3 : ') == inside.count(', %arg2 : ') == 1


def test_uneven_and_stacked():
  """Padded and cut; the value that passes on to the second region is stacked.
  """
  kind, tile = 'tensor<7x6xi8>', 'tensor<4x2xi8>'
  module = main(
      f'%arg0: {kind} {_XY}', kind, f'''
    %b = {_begin('%arg0', tile, kind)}
    %m = stablehlo.negate %b : {tile}
    %k = stablehlo.add %m, %m : {tile}
    %e = {_end('%k', kind, tile, _XY)}
    %s = {_sharding('%e', _XY, kind)}
    %c = {_begin('%s', tile, kind)}
    %n = stablehlo.add %c, %m : {tile}
    %f = {_end('%n', kind, tile, _XY)}
    return %f : {kind}''')
  lower(module)
  assert module.operation.verify()
  text = dialects.text(module)
  assert text.count('low = [0, 0], high = [1, 2], interior = [0, 0]') == 2
  assert text.count('[0:7, 0:6] : (tensor<8x8xi8>) -> tensor<7x6xi8>') == 2
  assert '-> (tensor<8x8xi8>, tensor<32x2xi8>)' in text
  assert '<@mesh, [{"axis_0", "axis_1"}, {}]>' in text


def test_manual_arguments_and_results():
  module = main(
      f'%arg0: {_L} {_M}, %arg1: tensor<f32> {_M}', f'{_L}, tensor<f32>, {_L}',
      f'''
    %s = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> {_L}
    %m = stablehlo.add %arg0, %s : {_L}
    %n = stablehlo.negate %arg1 : tensor<f32>
    return %m, %n, %arg0 : {_L}, tensor<f32>, {_L}''')
  program = lower(module)
  assert module.operation.verify()
  assert program.manual_results == {0, 1, 2}
  assert {
      n: str(p) for n, p in program.results.items()
  } == {
      0: '{devices=[8,1]<=[8]}',
      1: '{devices=[8]<=[8]}',
      2: '{devices=[8,1]<=[8]}'
  }
  text = shown(module)
  at = '{sdy.sharding = #sdy.sharding<@mesh, [{"axis_0"}'
  assert f'%arg0: tensor<32x8xf32> {at}, {{}}]>}}' in text
  assert f'%arg1: tensor<8xf32> {at}]>}}' in text


_CASES = [
    (f'%arg0: F {_X}', 'F', f'''
      %n = stablehlo.negate %arg0 : F
      %b = {_begin('%n')}
      %e = {_end('%b')}
      return %e : F''', 'a tensor without a sharding; mark it first'),
    (f'%arg0: F {_X}', 'F', f'''
      %e = {_end('%arg0', kind='F', at=_X.replace('[2,1,4]', '[1,1,8]'))}
      return %e : F''', 'it ends a region that nothing began'),
    (f'%arg0: F {_X}', _L, f'''
      %k = call @f(%arg0) : (F) -> {_L}
      return %k : {_L}''', 'a manual value that leaves a loop or function'),
    (f'%arg0: F {_X}', 'F', f'''
      %b = {_begin('%arg0')}
      %g = call @g(%b) : ({_L}) -> {_L}
      %e = {_end('%g')}
      return %e : F''', 'a loop or function in it that marks tensors'),
    (f'%arg0: F {_X}', f'tuple<{_L}>', f'''
      %b = {_begin('%arg0')}
      %t = stablehlo.tuple %b : tuple<{_L}>
      return %t : tuple<{_L}>''', 'a manual value that is no array'),
]


@pytest.mark.parametrize(
    'arguments, results, body, message', _CASES, ids=[c[-1] for c in _CASES])
def test_what_cannot_be_said(arguments, results, body, message):
  others = f'''
    func.func private @f(%arg0: F) -> {_L} {{
      %s = {_sharding('%arg0', _X, 'F')}
      %b = {_begin('%s')}
      return %b : {_L}
    }}
    func.func private @g(%arg0: {_L}) -> {_L} {{
      %s = {_sharding('%arg0', _X)}
      return %s : {_L}
    }}'''
  if '@f' not in body and '@g' not in body:
    others = ''
  elif '@g' in body:
    others = others[others.index('    func.func private @g'):]
  _check_refused(InexpressibleError, message, arguments, results, body, others)


@pytest.mark.parametrize('arguments, results, body, message', [
    (f'%arg0: F {_X}', 'F', f'''
      %b = {_begin('%arg0')}
      %c = {_begin('%b', 'tensor<2x8xf32>', _L)}
      %e = {_end('%c', 'F', 'tensor<2x8xf32>')}
      return %e : F''', 'begins a manual region within one'),
    (f'%arg0: {_L} {_M}', f'{_L} {{mhlo.sharding = "{{replicated}}"}}',
     f'return %arg0 : {_L}', 'result 0 has the sharding {replicated} and is '
     'computed from an argument of the program, which is manual'),
    (f'%arg0: F {_X}', 'F', f'''
      %b = {_begin('%arg0')}
      %s = {_sharding('%b', _X)}
      %e = {_end('%s')}
      return %e : F''', 'has the sharding {devices=[2,1,4]'),
    (f'%arg0: F {_X}', 'F', f'''
      %b = {_begin('%arg0', 'tensor<2x8xf32>')}
      %e = {_end('%b', kind='tensor<2x8xf32>')}
      return %e : F''', 'is f32[4,8] on a device, and not f32[2,8]; give'),
])
def test_what_means_nothing(arguments, results, body, message):
  _check_refused(ManualShardingError, message, arguments, results, body)


def _check_refused(error, message, arguments, results, body, others='') -> None:
  module = main(arguments, results, body, others)
  before = dialects.text(module)
  with pytest.raises(error) as raised:
    lower(module)
  assert message in str(raised.value)
  assert dialects.text(module) == before


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
