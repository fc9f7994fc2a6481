"""Programs in MLIR lowered to Shardy's terms, as MLIR prints them."""

import mlir_modules as modules
import pytest
from torch_xla.shardy.annotate.annotation import Annotation, UserMesh
from torch_xla.shardy.annotate.call_target import AnnotationTextError
from torch_xla.shardy.sdy.mesh_axes import InexpressibleError
from torch_xla.shardy.sharding.text import parse_sharding
from torch_xla.shardy.stablehlo import dialects, extract, to_sdy

pytest.importorskip('jaxlib', reason='needs jaxlib: it reads and prints MLIR')
_bind, _tag, _constrain = modules.bind, modules.tag, modules.sharding_call
_main, _lower = modules.main, modules.lower
_expected, _shown = modules.expected, modules.shown
_MESH = UserMesh.of((2, 4), ('x', 'y'))
_X = '{devices=[2,1,4]<=[8] last_tile_dim_replicate}'
_Y = '{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}'
_MINOR_X = '{devices=[1,2,4]<=[8] last_tile_dim_replicate}'
_AT_X, _AT_Y = (f'{{mhlo.sharding = "{s}"}}' for s in (_X, _Y))
_AT_MINOR_X = f'{{mhlo.sharding = "{_MINOR_X}"}}'


def _say(spec, priority=None, mesh=_MESH) -> Annotation:
  return Annotation.of(mesh, spec, priority)


def _arguments(*placed: str) -> str:
  """Arguments of type F with these attributes."""
  return ', '.join(f'%arg{i}: F {at}' for i, at in enumerate(placed))


def test_parameters():
  """Annotated with and without priority, placed without a word, and whole."""
  module = _main(
      f'{_arguments(_AT_X, _AT_Y, _AT_MINOR_X)}, %arg3: tensor<f32>',
      'tensor<f32>', f'''
    %b = {_bind(_say((0, None), (2, None)), _say((1, None)),
                of=('%arg0', '%arg1'))}
    return %b : tensor<f32>''')
  program = _lower(module)
  assert _shown(module) == _expected('''
      sdy.mesh @mesh = <["x"=2, "y"=4]>
      func.func @main(%arg0: F {sdy.sharding = #sdy.sharding<@mesh, \
[{"x"}p2, {}]>},
          %arg1: F {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>},
          %arg2: F {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}p3]>},
          %arg3: tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, []>})
          -> tensor<f32> {
        %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        return %cst : tensor<f32>
      }''')
  assert program.results == {}
  assert [(t.parameter, t.instruction, str(t.shape), t.annotation)
          for t in program.tensors] == [(0, 'arg0', 'f32[8,8]',
                                         _say((0, None), (2, None))),
                                        (1, 'arg1', 'f32[8,8]', _say(
                                            (1, None))),
                                        (2, 'arg2', 'f32[8,8]', None),
                                        (3, 'arg3', 'f32[]', None)]
  assert [t.placement for t in program.tensors
         ] == [parse_sharding(s) for s in (_X, _Y, _MINOR_X, '{replicated}')]


def test_open_dimension_of_a_parameter():
  """Closed where it is stored, open where it is used, also as a result."""
  module = _main(
      _arguments(_AT_X), 'F, F, tensor<f32>', f'''
    %b = {_bind(_say((0, None), (1, 4)), of=('%arg0',))}
    %n = stablehlo.negate %arg0 : F
    return %n, %arg0, %b : F, F, tensor<f32>''')
  program = _lower(module)
  assert _shown(module) == _expected('''
      sdy.mesh @mesh = <["x"=2, "y"=4]>
      func.func @main(%arg0: F {sdy.sharding = #sdy.sharding<@mesh, \
[{"x"}p1, {}]>})
          -> (F, F, tensor<f32>) {
        %0 = sdy.sharding_constraint %arg0 <@mesh, [{"x"}p1, {?}p4]> : F
        %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1 = stablehlo.negate %0 : F
        return %1, %0, %cst : F, F, tensor<f32>
      }''')
  # The record tells what was asked for, and no result is promised.
  tensor, = program.tensors
  assert tensor.sdy == '#sdy.sharding<@mesh, [{"x"}p1, {?}p4]>'
  assert program.results == {}


def test_sharding_calls_and_pinned_results():
  """A tagged one, one that nobody spoke of, and both as results."""
  module = _main(
      _arguments(_AT_X), 'F, F, F', f'''
    %k = {_tag(_say((None, 1), (None, 1)), '%arg0')}
    %c = {_constrain('%k', '{devices=[1,4,2]<=[2,4]T(1,0) '
                           'last_tile_dim_replicate}')}
    %d = {_constrain('%c', _X)}
    %n = stablehlo.negate %d : F
    return %c, %n, %d : F, F, F''')
  program = _lower(module)
  assert _shown(module) == _expected('''
      sdy.mesh @mesh = <["x"=2, "y"=4]>
      func.func @main(%arg0: F {sdy.sharding = #sdy.sharding<@mesh, \
[{"x"}p2, {}]>})
          -> (F {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}p1]>}, F, \
F {sdy.sharding = #sdy.sharding<@mesh, [{"x"}p2, {}]>}) {
        %0 = sdy.sharding_constraint %arg0 <@mesh, [{}, {"y"}p1]> : F
        %1 = sdy.sharding_constraint %0 <@mesh, [{"x"}p2, {}]> : F
        %2 = stablehlo.negate %1 : F
        return %0, %2, %1 : F, F, F
      }''')
  assert {
      k: str(v) for k, v in program.results.items()
  } == {
      0: '{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}',
      2: _X
  }
  assert [(t.parameter, t.instruction, t.sdy) for t in program.tensors
         ] == [(0, 'arg0', '#sdy.sharding<@mesh, [{"x"}p2, {}]>'),
               (None, 'constraint.0', '#sdy.sharding<@mesh, [{}, {"y"}p1]>'),
               (None, 'constraint.1', '#sdy.sharding<@mesh, [{"x"}p2, {}]>')]


def test_same_result_twice():
  module = _main(
      _arguments(''), 'F, F', f'''
    %k = {_tag(_say((0, None)), '%arg0')}
    %c = {_constrain('%k', _X)}
    return %c, %c : F, F''')
  program = _lower(module)
  pin = 'F {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}'
  assert f'-> ({pin}, {pin})' in _shown(module)
  assert list(program.results) == [0, 1]


def test_open_result_is_left_to_shardy():
  module = _main(
      _arguments(''), 'F', f'''
    %k = {_tag(_say((0, None), (None, 0)), '%arg0')}
    %c = {_constrain('%k', _X)}
    return %c : F''')
  program = _lower(module)
  assert _shown(module) == _expected('''
      sdy.mesh @mesh = <["x"=2, "y"=4]>
      func.func @main(%arg0: F {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>})
          -> F {
        %0 = sdy.sharding_constraint %arg0 <@mesh, [{"x"}, {?}p0]> : F
        return %0 : F
      }''')
  assert program.results == {}


def test_tag_of_a_tag():
  """The one next to the call is what it says."""
  module = _main(
      _arguments(''), 'F', f'''
    %k = {_tag(_say((1, None), (7, None)), '%arg0')}
    %l = {_tag(_say((0, None), (5, None)), '%k')}
    %c = {_constrain('%l', _X)}
    %n = stablehlo.negate %c : F
    return %n : F''')
  _lower(module)
  assert _shown(module) == _expected('''
      sdy.mesh @mesh = <["x"=2, "y"=4]>
      func.func @main(%arg0: F {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>})
          -> F {
        %0 = sdy.sharding_constraint %arg0 <@mesh, [{"x"}p5, {}]> : F
        %1 = stablehlo.negate %0 : F
        return %1 : F
      }''')


def test_tag_without_a_call():
  """Of a tensor that nothing constrains: it goes, and its mesh with it."""
  module = _main(
      _arguments(''), 'F', f'''
    %k = {_tag(_say((1, None)), '%arg0')}
    %n = stablehlo.negate %k : F
    return %n : F''')
  assert extract.take(module).found
  assert _shown(module) == _expected('''
      func.func @main(%arg0: F)
          -> F {
        %0 = stablehlo.negate %arg0 : F
        return %0 : F
      }''')


def test_sharding_on_an_operation_becomes_a_constraint():
  """All but a scalar's, of which nothing is to be said."""
  module = _main(
      _arguments(_AT_X), 'F, tensor<f32>', f'''
    %b = {_bind(_say((0, None), (0, None)), of=('%arg0',))}
    %z = stablehlo.constant {{mhlo.sharding = "{{replicated}}"}}
        dense<0.0> : tensor<f32>
    %w = stablehlo.broadcast_in_dim %z, dims = [] {_AT_MINOR_X}
        : (tensor<f32>) -> F
    %s = stablehlo.add %arg0, %w {{mhlo.sharding = "{{replicated}}"}} : F
    return %s, %b : F, tensor<f32>''')
  program = _lower(module)
  assert _shown(module) == _expected('''
      sdy.mesh @mesh = <["x"=2, "y"=4]>
      func.func @main(%arg0: F {sdy.sharding = #sdy.sharding<@mesh, \
[{"x"}p0, {}]>})
          -> (F {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<f32>) {
        %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %0 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> F
        %1 = sdy.sharding_constraint %0 <@mesh, [{}, {"x"}p1]> : F
        %2 = stablehlo.add %arg0, %1 : F
        %3 = sdy.sharding_constraint %2 <@mesh, [{}, {}]> : F
        return %3, %cst : F, tensor<f32>
      }''')
  assert {k: str(v) for k, v in program.results.items()} == {0: '{replicated}'}


def test_sharding_of_a_result():
  """As on the program with which torch_xla reads a tensor; over a made-up
  mesh, for nobody names one."""
  module = _main(
      _arguments(_AT_X, _AT_Y), 'F {mhlo.sharding = "{replicated}"}', '''
    %s = stablehlo.add %arg0, %arg1 : F
    return %s : F''')
  program = _lower(module)
  assert _shown(module) == _expected('''
      sdy.mesh @mesh = <["axis_0"=2, "axis_1"=4]>
      func.func @main(%arg0: F {sdy.sharding = #sdy.sharding<@mesh, \
[{"axis_0"}, {}]>},
          %arg1: F {sdy.sharding = #sdy.sharding<@mesh, [{"axis_1"}, {}]>})
          -> (F {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
        %0 = stablehlo.add %arg0, %arg1 : F
        return %0 : F
      }''')
  assert {k: str(v) for k, v in program.results.items()} == {0: '{replicated}'}


def test_sharding_of_a_result_goes_before_that_of_what_is_returned():
  module = _main(
      _arguments(''), f'F {_AT_Y}', f'''
    %k = {_tag(_say((0, None)), '%arg0')}
    %c = {_constrain('%k', _X)}
    return %c : F''')
  program = _lower(module)
  assert ('-> (F {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) {'
          in _shown(module))
  assert {k: str(v) for k, v in program.results.items()} == {0: _Y}


def test_no_sharding_at_all():
  module = _main('%arg0: F', 'F', 'return %arg0 : F')
  program = _lower(module)
  assert _shown(module) == _expected('''
      sdy.mesh @mesh = <["axis_0"=8]>
      func.func @main(%arg0: F {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>})
          -> F {
        return %arg0 : F
      }''')
  assert program.results == {}


def test_pin_results():
  """Those that are not yet: replicated. An array's alone."""
  module = _main(
      _arguments(_AT_X), 'F, F, tensor<f32>, !stablehlo.token', f'''
    %k = {_tag(_say((1, None), (3, None)), '%arg0')}
    %c = {_constrain('%k', _Y)}
    %n = stablehlo.negate %c : F
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %t = stablehlo.create_token : !stablehlo.token
    return %n, %c, %z, %t : F, F, tensor<f32>, !stablehlo.token''')
  placements = to_sdy.pin_results(module, _lower(module))
  assert _shown(module).splitlines()[3] == (
      '      -> (F {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, '
      'F {sdy.sharding = #sdy.sharding<@mesh, [{"y"}p3, {}]>}, '
      'tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, []>}, '
      '!stablehlo.token) {')
  assert {
      k: str(v) for k, v in placements.items()
  } == {
      0: '{replicated}',
      1: _Y,
      2: '{replicated}'
  }
  assert list(placements) == [0, 1, 2]


def test_no_priorities_where_no_user_gave_any():
  module = _main(
      _arguments(_AT_X, _AT_Y), 'tensor<f32>', f'''
    %b = {_bind(_say((0, None), (None, None)), of=('%arg0',))}
    return %b : tensor<f32>''')
  _lower(module)
  text = _shown(module)
  assert '[{"x"}, {}]' in text and '[{"y"}, {}]' in text
  assert '}p' not in text


def test_annotation_of_another_placement_says_nothing():
  """The tensor was placed anew since."""
  module = _main(
      _arguments(_AT_Y, ''), 'tensor<f32>', f'''
    %b = {_bind(_say((0, None), (1, None)), _say((1, None), (0, None)),
                of=('%arg0', '%arg1'))}
    return %b : tensor<f32>''')
  program = _lower(module)
  text = _shown(module)
  assert '[{"y"}p2, {}]' in text and '[{}, {}]' in text
  assert [t.annotation for t in program.tensors] == [None, None]


def test_binding_of_what_is_no_parameter():
  """It says nothing of parameters, and it says so."""
  module = _main(
      _arguments(_AT_X), 'tensor<f32>, F', f'''
    %n = stablehlo.negate %arg0 : F
    %b = {_bind(_say((1, None)), _say((0, None)), of=('%n', '%arg0'))}
    return %b, %n : tensor<f32>, F''')
  taken = extract.take(module)
  binding, = taken.bindings
  assert binding.parameters == (-1, 0)
  assert taken.parameters == {0: _say((0, None))}


def test_permuted_mesh():
  mesh = UserMesh.of((2, 4), ('x', 'y'), (0, 2, 1, 3, 7, 6, 5, 4))
  said = _say((1, 0), (0, 1), mesh)
  module = _main(
      _arguments(f'{{mhlo.sharding = "{said.sharding}"}}'), 'tensor<f32>', f'''
    %b = {_bind(said, of=('%arg0',))}
    return %b : tensor<f32>''')
  _lower(module)
  assert _shown(module).splitlines()[1:3] == [
      '  sdy.mesh @mesh = <["x"=2, "y"=4], '
      'device_ids=[0, 2, 1, 3, 7, 6, 5, 4]>',
      '  func.func @main(%arg0: F {sdy.sharding = #sdy.sharding<@mesh, '
      '[{"y"}p0, {"x"}p1]>})'
  ]


_LINE = UserMesh.of((8,), ('d',))
_FOUR_TWO = UserMesh.of((4, 2), ('a', 'b'))


@pytest.mark.parametrize(
    'meshes, mesh, shardings',
    [
        # The one that most tensors use; the other's axis is both of its.
        ((_MESH, _MESH, _LINE), '"x"=2, "y"=4',
         ['[{"x"}, {}]', '[{"x"}, {}]', '[{"x", "y"}, {}]']),
        # And 2x4 says what 8 does, without a sub-axis.
        ((_MESH, _LINE, _LINE), '"x"=2, "y"=4',
         ['[{"x"}, {}]', '[{"x", "y"}, {}]', '[{"x", "y"}, {}]']),
        # 4x2 of the same devices: 'a' takes half of 'y'.
        ((_MESH, _MESH, _FOUR_TWO), '"x"=2, "y"=4',
         ['[{"x"}, {}]', '[{"x"}, {}]', '[{"x", "y":(1)2}, {}]']),
    ])
def test_several_meshes_over_the_same_devices(meshes, mesh, shardings):
  said = [_say((0, None), None, m) for m in meshes]
  module = _main(
      _arguments(*(f'{{mhlo.sharding = "{s.sharding}"}}' for s in said)),
      'tensor<f32>', f'''
    %b = {_bind(*said, of=('%arg0', '%arg1', '%arg2'))}
    return %b : tensor<f32>''')
  _lower(module)
  lines = _shown(module).splitlines()
  assert lines[1] == f'  sdy.mesh @mesh = <[{mesh}]>'
  for line, sharding in zip(lines[2:5], shardings, strict=True):
    assert f'#sdy.sharding<@mesh, {sharding}>' in line


def test_loop():
  """Constraints in a region; its arguments are none of the program's."""
  module = _main(
      _arguments(_AT_X), 'F', f'''
    %z = stablehlo.constant dense<0> : tensor<i64>
    %w:2 = stablehlo.while(%i = %z, %q = %arg0) : tensor<i64>, F
    cond {{
      %no = stablehlo.compare LT, %i, %i
          : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %no : tensor<i1>
    }} do {{
      %s = stablehlo.sine %q {_AT_MINOR_X} : F
      %k = {_tag(_say((0, None), (3, None)), '%s')}
      %c = {_constrain('%k', _X)}
      stablehlo.return %i, %c : tensor<i64>, F
    }}
    return %w#1 : F''')
  program = _lower(module)
  lines = [line.strip() for line in _shown(module).splitlines()]
  start = lines.index('} do {')
  assert lines[start + 1:start + 5] == [
      '%1 = stablehlo.sine %iterArg_0 : F',
      '%2 = sdy.sharding_constraint %1 <@mesh, [{}, {"x"}p4]> : F',
      '%3 = sdy.sharding_constraint %2 <@mesh, [{"x"}p3, {}]> : F',
      'stablehlo.return %iterArg, %3 : tensor<i64>, F'
  ]
  assert program.results == {}
  assert [t.instruction for t in program.tensors] == ['arg0', 'constraint.0']


def test_private_function():
  """As scan and composites call: it is constrained, and gets no pin."""
  module = _main(
      _arguments(_AT_X),
      'F',
      '''
    %r = func.call @step(%arg0) : (F) -> F
    return %r : F''',
      others=f'''
    func.func private @step(%arg0: F) -> F {{
      %k = {_tag(_say((1, None), (3, None)), '%arg0')}
      %c = {_constrain('%k', _Y)}
      return %c : F
    }}''')
  program = _lower(module)
  assert _shown(module) == _expected('''
      sdy.mesh @mesh = <["x"=2, "y"=4]>
      func.func private @step(%arg0: F)
          -> F {
        %0 = sdy.sharding_constraint %arg0 <@mesh, [{"y"}p3, {}]> : F
        return %0 : F
      }
      func.func @main(%arg0: F {sdy.sharding = #sdy.sharding<@mesh, \
[{"x"}p4, {}]>})
          -> F {
        %0 = call @step(%arg0) : (F) -> F
        return %0 : F
      }''')
  assert program.results == {}


def test_composites_are_kept():
  module = _main(
      _arguments(_AT_X),
      'F, tensor<f32>',
      f'''
    %b = {_bind(_say((0, None), (0, None)), of=('%arg0',))}
    %r = stablehlo.composite "my.gelu" %arg0
        {{composite_attributes = {{k = 1 : i64}}, decomposition = @gelu}}
        : (F) -> F
    return %r, %b : F, tensor<f32>''',
      others='''
    func.func private @gelu(%arg0: F) -> F {
      return %arg0 : F
    }''')
  _lower(module)
  assert ('stablehlo.composite "my.gelu" %arg0 {composite_attributes = '
          '{k = 1 : i64}, decomposition = @gelu} : (F) -> F' in _shown(module))


def test_donation():
  """Of a parameter that only a binding used: it is not in this program."""
  donated = '{jax.buffer_donor = true}'
  module = _main(
      _arguments(donated, donated, donated), 'tensor<f32>, F', f'''
    %b = {_bind(_say((None, None)), _say((None, None)), of=('%arg0', '%arg1'))}
    %n = stablehlo.negate %arg1 : F
    return %b, %n : tensor<f32>, F''')
  extract.take(module)
  assert _shown(module).splitlines()[1:5] == [
      '  func.func @main(%arg0: F,',
      '      %arg1: F {jax.buffer_donor = true},',
      '      %arg2: F {jax.buffer_donor = true})',
      '      -> (tensor<f32>, F) {',
  ]


_NO_PLACEMENT = _say((None, None))

_UNSAYABLE = [
    ('%arg0: F {mhlo.sharding = "{maximal device=3}"}', 'F', 'return %arg0 : F',
     'the sharding {maximal device=3}'),
    ('%arg0: F {mhlo.sharding = "{devices=[2,2]<=[4]}"}', 'F',
     'return %arg0 : F', 'over 4 of 8 devices'),
    ('%arg0: F', 'F {mhlo.sharding = "{devices=[2,2]<=[4]}"}',
     'return %arg0 : F', 'over 4 of 8 devices'),
    (f'%arg0: tensor<8xf32> {_AT_X}', 'tensor<8xf32>',
     'return %arg0 : tensor<8xf32>', 'on a tensor of rank 1'),
    ('%arg0: F {mhlo.sharding = "{devices=[2,"}', 'F', 'return %arg0 : F',
     'a sharding that is not understood'),
    ('%arg0: tuple<F, F>', 'F', '''
      %g = stablehlo.get_tuple_element %arg0[0] : (tuple<F, F>) -> F
      return %g : F''', 'the parameter 0, which is tuple<'),
    ('%arg0: tensor<?x8xf32>', 'F', '''
      %z = stablehlo.constant dense<0.0> : F
      return %z : F''',
     'the parameter 0, which is tensor<?x8xf32> and no array'),
    ('%arg0: F', 'F', f'''
      %t = stablehlo.tuple %arg0, %arg0 {{mhlo.sharding = "{{{_X}, {_X}}}"}}
          : tuple<F, F>
      return %arg0 : F''', 'stablehlo.tuple, which is tuple<'),
    ('%arg0: F', 'F', f'''
      %c:2 = stablehlo.custom_call @two(%arg0)
          {{mhlo.sharding = "{{{_X}, {_X}}}"}} : (F) -> (F, F)
      return %c#0 : F''', 'a sharding on the tuple stablehlo.custom_call'),
]


@pytest.mark.parametrize(
    'arguments, results, body, message',
    _UNSAYABLE,
    ids=[u[-1] for u in _UNSAYABLE])
def test_what_cannot_be_said(arguments, results, body, message):
  """The module is as it was."""
  module = _main(arguments, results, body)
  text = _shown(module)
  with pytest.raises(InexpressibleError) as raised:
    _lower(module)
  assert message in str(raised.value)
  assert _shown(module) == text


@pytest.mark.parametrize('num_devices', [1, 4, 16])
def test_mesh_of_other_devices(num_devices):
  module = _main(
      '%arg0: F', 'tensor<f32>', f'''
    %b = {_bind(_NO_PLACEMENT, of=('%arg0',))}
    return %b : tensor<f32>''')
  with pytest.raises(InexpressibleError, match='a mesh of 8 devices'):
    _lower(module, num_devices)


@pytest.mark.parametrize('target, message', [
    ('torch_xla.shardy.bind {"of":', 'damaged annotations in a program'),
    ('torch_xla.shardy.tag {"of":"","meshes":[],"tensors":[[0,[],null]]}',
     'there is no mesh 0'),
    ('torch_xla.shardy.bind {"of":"","meshes":[],"tensors":[]}',
     '0 annotations for 1 tensors'),
])
def test_damaged_target(target, message):
  body = f'''
    %b = {modules.call(target, '%arg0', result='F')}
    %c = {_constrain('%b', _X)}
    return %c : F'''
  with pytest.raises(AnnotationTextError) as raised:
    extract.take(_main('%arg0: F', 'F', body))
  assert message in str(raised.value)


def test_no_main():
  module = modules.read('module { func.func @other() { return } }')
  with pytest.raises(
      dialects.ProgramTextError, match='without a function main'):
    _lower(module)


def test_what_is_taken():
  """Others' calls are told by target, and those with a sharding."""
  module = _main(
      '%arg0: F', 'F', f'''
    %k = {_tag(_say((0, None)), '%arg0')}
    %c = {_constrain('%k', _X)}
    %d = stablehlo.custom_call @theirs(%c) : (F) -> F
    %e = stablehlo.custom_call @mine(%d) {_AT_X} : (F) -> F
    return %e : F''')
  taken = extract.take(module)
  assert taken.found and taken.calls == {'theirs', 'mine'}
  assert taken.constraints == {0: _say((0, None))}
  assert len(taken.sharding_calls) == 1
  operation, = taken.sharded
  assert operation.attributes['call_target_name'].value == 'mine'
  assert not extract.take(_main('%arg0: F', 'F', 'return %arg0 : F')).found


def test_axis_names_that_no_text_holds():
  said = _say((1, 0), None, UserMesh.of((2, 4), ('a"b', 'ｙ')))
  module = _main(
      _arguments(f'{{mhlo.sharding = "{said.sharding}"}}'), 'tensor<f32>', f'''
    %b = {_bind(said, of=('%arg0',))}
    return %b : tensor<f32>''')
  _lower(module)
  assert 'sdy.mesh @mesh = <["axis_0"=2, "axis_1"=4]>' in _shown(module)
  assert '[{"axis_1"}, {"axis_0"}]' in _shown(module)
