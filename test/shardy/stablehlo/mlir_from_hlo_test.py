"""Programs in HLO converted: what torch_xla says of them stays in them."""

from annotated_modules import bind, module_of, tag
import mlir_modules as modules
import pytest
from torch_xla.shardy.annotate.annotation import Annotation, UserMesh
from torch_xla.shardy.stablehlo import dialects, from_hlo

pytest.importorskip('jaxlib._hlo', reason='needs jaxlib: HLO text')
_MESH = UserMesh.of((2, 4), ('x', 'y'))
_F = 'f32[8,8]{1,0}'
_X = '{devices=[2,1,4]<=[8] last_tile_dim_replicate}'


def _say(spec, priority=None) -> Annotation:
  return Annotation.of(_MESH, spec, priority)


def _converted(entry: str, others: str = '', header: str = ''):
  return from_hlo.convert(module_of(entry, others, header).SerializeToString())


def test_bindings_tags_and_donation():
  """The same as a program that came in MLIR, and lowered likewise."""
  module = _converted(
      f'''
    p0 = {_F} parameter(0), sharding={_X}
    p1 = {_F} parameter(1)
    p2 = {_F} parameter(2)
    b = f32[] custom-call(p0, p2), {bind(_say((0, None), (1, None)),
                                         _say((None, None)))}
    k = {_F} custom-call(p1), {tag(_say((1, None), (2, None)))}
    c = {_F} custom-call(k), custom_call_target="Sharding",
      sharding={{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}}
    s = {_F} add(p0, c)
    ROOT t = ({_F}, f32[]) tuple(s, b)''',
      header=', buffer_donor={ (0, {}), (2, {}) }')
  assert modules.shown(module).splitlines()[1:5] == [
      '  func.func @main(%arg0: F {jax.buffer_donor = true, '
      f'mhlo.sharding = "{_X}"}},',
      '      %arg1: F,',
      '      %arg2: F {jax.buffer_donor = true})',
      '      -> (F, tensor<f32>) {',
  ]
  modules.lower(module)
  text = modules.shown(module)
  assert text[text.index('  sdy'):] == modules.expected('''
      sdy.mesh @mesh = <["x"=2, "y"=4]>
      func.func @main(%arg0: F {jax.buffer_donor = true, \
sdy.sharding = #sdy.sharding<@mesh, [{"x"}p1, {}]>},
          %arg1: F {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>},
          %arg2: F {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>})
          -> (F, tensor<f32>) {
        %0 = sdy.sharding_constraint %arg1 <@mesh, [{"y"}p2, {}]> : F
        %1 = stablehlo.add %arg0, %0 : F
        %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        return %1, %cst : F, tensor<f32>
      }''').removeprefix('module @m {\n')


def test_no_donation():
  text = modules.shown(
      _converted(f'''
    p0 = {_F} parameter(0)
    ROOT n = {_F} negate(p0)'''))
  assert 'donor' not in text and '@main(%arg0: F)' in text


def test_a_loop_has_no_tuples_for_shardy():
  pair = f'({_F}, f32[])'
  module = _converted(
      f'''
    p0 = {_F} parameter(0), sharding={_X}
    z = f32[] constant(0)
    r = {pair} call(p0, z), to_apply=step
    g = {_F} get-tuple-element(r), index=0
    b = f32[] custom-call(p0), {bind(_say((0, None)))}
    ROOT t = ({_F}, f32[]) tuple(g, b)''',
      others=f'''
step {{
  q = {_F} parameter(0)
  y = f32[] parameter(1)
  s = {_F} sine(q)
  ROOT o = {pair} tuple(s, y)
}}
''')
  modules.lower(module)
  assert 'tuple' not in modules.shown(module)


def test_damaged():
  with pytest.raises(ValueError, match='not a valid HloModuleProto'):
    from_hlo.convert(b'\xff')


def test_what_cannot_be_converted():
  """A program without anything in it."""
  with pytest.raises(
      dialects.ProgramTextError, match='cannot convert a program in HLO'):
    from_hlo.convert(b'')
