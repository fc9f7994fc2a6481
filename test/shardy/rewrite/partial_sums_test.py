"""What is unreduced: the sums that are split, and what is no such sum."""

import annotated_modules as modules
from printed import assert_printed
import pytest
from torch_xla.shardy.annotate.annotation import Annotation, UserMesh
from torch_xla.shardy.sdy.mesh_axes import InexpressibleError

pytest.importorskip('jaxlib', reason='needs jaxlib: HLO text')
_MESH = UserMesh.from_devices((2, 4), ('x', 'y'))
_F = 'f32[8,8]{1,0}'
_WHOLE = 'custom_call_target="Sharding", sharding={replicated}'
_Y = ('custom_call_target="Sharding", '
      'sharding={devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}')
_ADD = '''add {
  u = f32[] parameter(0)
  v = f32[] parameter(1)
  ROOT w = f32[] add(u, v)
}'''
_MAX = _ADD.replace('add(', 'maximum(')
_DOT = 'dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}'
_SUM = 'reduce(p0, z), dimensions={1}, to_apply=add'


def _unreduced(*axes: int, rank: int = 2, split: int | None = None):
  return Annotation.from_spec(_MESH, (split, *(None,) * (rank - 1)), None, None,
                              axes)


def _lower(body: str, others: str = ''):
  module = modules.module_of(
      f'''p0 = {_F} parameter(0), sharding={{replicated}}
    p1 = {_F} parameter(1), sharding={{replicated}}
    p2 = f32[9,8]{{1,0}} parameter(2), sharding={{replicated}}
    z = f32[] constant(0)
    {body}''', others)
  modules.lower(module)
  return modules.printed(module).split('{\n', 1)[1]


def test_a_product():
  """Its operands are split, and as a result it is added up."""
  text = _lower(f'''
    d = {_F} {_DOT}
    k = {_F} custom-call(d), {modules.tag(_unreduced(0, split=1))}
    c = {_F} custom-call(k), {_Y}
    ROOT t = ({_F}) tuple(c)''')
  assert_printed(
      text, '''\
  p2 = f32[9,8]{1,0} parameter(2), sharding={replicated},
      attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{}, {}]>"}
  z = f32[] constant(0)
  p0 = F parameter(0), sharding={replicated},
      attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{}, {}]>"}
  added0 = F custom-call(p0), "Sharding", sharding={devices=[1,2,4]<=[8]
      last_tile_dim_replicate},
      attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{?},
      {'x'}]>]>"}, backend_config="unspecified_dims=[0]"
  p1 = F parameter(1), sharding={replicated},
      attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{}, {}]>"}
  added1 = F custom-call(p1), "Sharding", sharding={devices=[2,1,4]<=[8]
      last_tile_dim_replicate},
      attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{'x'},
      {?}]>]>"}, backend_config="unspecified_dims=[1]"
  d = F dot(added0, added1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = F custom-call(d), "Sharding", sharding={devices=[4,1,2]<=[2,4]T(1,0)
      last_tile_dim_replicate},
      attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{'y'},
      {}], unreduced={'x'}>]>"}
  added2 = F custom-call(c), "xla.sdy.FuncResultSharding",
      attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{'y'},
      {}]>]>"}
  ROOT t = (F) tuple(added2)
}''')


def test_a_sum():
  text = _lower(
      f'''r = f32[8]{{0}} {_SUM}
    k = f32[8]{{0}} custom-call(r), {modules.tag(_unreduced(0, 1, rank=1))}
    c = f32[8]{{0}} custom-call(k), {_WHOLE}
    ROOT n = f32[8]{{0}} negate(c)''', _ADD)
  assert_printed(
      text, '''\
  u = f32[] parameter(0)
  v = f32[] parameter(1)
  ROOT w = f32[] add(u, v)
}

ENTRY e (p0: f32[8,8], p1: f32[8,8], p2: f32[9,8]) -> f32[8] {
  p1 = F parameter(1), sharding={replicated},
      attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{}, {}]>"}
  p2 = f32[9,8]{1,0} parameter(2), sharding={replicated},
      attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{}, {}]>"}
  p0 = F parameter(0), sharding={replicated},
      attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{}, {}]>"}
  added0 = F custom-call(p0), "Sharding", sharding={devices=[1,8]<=[8]},
      attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{?}, {'x',
      'y'}]>]>"}, backend_config="unspecified_dims=[0]"
  z = f32[] constant(0)
  r = f32[8]{0} reduce(added0, z), dimensions={1}, to_apply=add
  c = f32[8]{0} custom-call(r), "Sharding", sharding={replicated},
      attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{}],
      unreduced={'x', 'y'}>]>"}
  ROOT n = f32[8]{0} negate(c)
}''')


@pytest.mark.parametrize('body, others, text', [
    (f'd = {_F} negate(p0)', '',
     'no product of matrices and no sum, but negate'),
    (f'd = f32[8]{{0}} {_SUM}', _MAX,
     'no product of matrices and no sum, but reduce'),
    (f'''d = {_F} {_DOT}
    o = {_F} custom-call(d), {_Y}''', '', 'the value is placed elsewhere, too'),
    (f'd = {_F} {_DOT}, sharding={{replicated}}', '', 'placed elsewhere'),
    ('''q = f32[8,3]{1,0} slice(p0), slice={[0:8], [0:3]}
    d = f32[8,8]{1,0} dot(q, q), lhs_contracting_dims={1},
      rhs_contracting_dims={1}''', '',
     'a sum over [3], which 2 devices do not share evenly'),
    ('d = f32[9,8]{1,0} dot(p2, p1), lhs_contracting_dims={1}, '
     'rhs_contracting_dims={0}', '',
     "[9, 8] does not divide into the tiles of ('y', None)"),
])
def test_what_is_no_part_of_a_sum(body, others, text):
  shape = 'f32[8]{0}' if _SUM in body else (
      'f32[9,8]{1,0}' if 'p2' in body else _F)
  placed = _Y if 'p2' in body else _WHOLE
  said = _unreduced(
      0, rank=1 if _SUM in body else 2, split=1 if 'p2' in body else None)
  with pytest.raises(InexpressibleError) as raised:
    _lower(
        f'''{body}
    k = {shape} custom-call(d), {modules.tag(said)}
    c = {shape} custom-call(k), {placed}
    ROOT t = ({shape}{f", {_F}" if " o = " in body else ""}) tuple(c{
        ", o" if " o = " in body else ""})''', others)
  assert "axes ('x',) as unreduced: " in str(raised.value)
  assert text in str(raised.value)
  assert raised.value.site


def test_over_two_meshes():
  other = Annotation.from_spec(
      UserMesh.from_devices((8,), ('z',)), (None, None), None, None, (0,))
  with pytest.raises(InexpressibleError, match='unreduced over .* one mesh'):
    _lower(f'''
    d = {_F} {_DOT}
    k = {_F} custom-call(d), {modules.tag(_unreduced(0))}
    c = {_F} custom-call(k), {_WHOLE}
    e = {_F} {_DOT}
    l = {_F} custom-call(e), {modules.tag(other)}
    o = {_F} custom-call(l), {_WHOLE}
    ROOT t = ({_F}, {_F}) tuple(c, o)''')
