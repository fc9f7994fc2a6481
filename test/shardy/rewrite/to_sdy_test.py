"""Programs lowered to Shardy's terms, as XLA prints them."""

import annotated_modules as modules
from printed import assert_printed
import pytest
from torch_xla.shardy.annotate.annotation import Annotation, UserMesh
from torch_xla.shardy.rewrite import extract, to_sdy
from torch_xla.shardy.sdy.mesh_axes import InexpressibleError
from torch_xla.shardy.sharding.text import parse_sharding

hlo = pytest.importorskip('jaxlib._hlo', reason='needs jaxlib: HLO text')
_bind, _tag = modules.bind, modules.tag
_module = modules.module_of
_MESH = UserMesh.from_devices((2, 4), ('x', 'y'))
_F = 'f32[8,8]{1,0}'
_X = '{devices=[2,1,4]<=[8] last_tile_dim_replicate}'
_Y = '{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}'
_MINOR_X = '{devices=[1,2,4]<=[8] last_tile_dim_replicate}'


def _say(spec, priority=None, mesh=_MESH) -> Annotation:
  return Annotation.from_spec(mesh, spec, priority)


def _lower(entry: str, others: str = '', num_devices: int = 8):
  """What the module becomes, and what is said of it."""
  module = _module(entry, others)
  lowering = to_sdy.lower_shardings(module, extract.extract_annotations(module),
                                    num_devices)
  return modules.printed(module), lowering


def test_parameters():
  """Annotated with and without priority, placed without a word, and whole."""
  text, lowering = _lower(f'''
    p0 = {_F} parameter(0), sharding={_X}
    p1 = {_F} parameter(1), sharding={_Y}
    p2 = {_F} parameter(2), sharding={_MINOR_X}
    p3 = f32[] parameter(3)
    b = f32[] custom-call(p0, p1), {_bind(_say((0, None), (2, None)),
                                          _say((1, None)))}
    ROOT t = (f32[], {_F}, {_F}, {_F}) tuple(b, p0, p1, p2)''')
  assert_printed(
      text, '''\
{xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=4]>}}
ENTRY e (p0: f32[8,8], p1: f32[8,8], p2: f32[8,8], p3: f32[]) -> (f32[],
    f32[8,8], f32[8,8], f32[8,8]) {
  p3 = f32[] parameter(3), attributes={xla.sdy.sharding="#sdy.sharding<@mesh,
      []>"}
  b = f32[] constant(0)
  p0 = F parameter(0), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate},
      attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{'x'}p2, {}]>"}
  p1 = F parameter(1), sharding={devices=[4,1,2]<=[2,4]T(1,0)
      last_tile_dim_replicate},
      attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{'y'}, {}]>"}
  p2 = F parameter(2), sharding={devices=[1,2,4]<=[8] last_tile_dim_replicate},
      attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{}, {'x'}p3]>"}
  ROOT t = (f32[], F, F, F) tuple(b, p0, p1, p2)
}''')
  assert lowering.results == {}
  assert [(t.parameter, t.instruction, str(t.shape), t.spec, t.priority)
          for t in lowering.tensors] == [
              (0, 'p0', 'f32[8,8]', "('x', None)", (2, None)),
              (1, 'p1', 'f32[8,8]', "('y', None)", None),
              (2, 'p2', 'f32[8,8]', None, None), (3, 'p3', 'f32[]', None, None)
          ]
  assert [t.layout for t in lowering.tensors
         ] == [parse_sharding(s) for s in (_X, _Y, _MINOR_X, '{replicated}')]


def test_open_dimension_of_a_parameter():
  """Closed where it is stored, open where it is used, also by the root."""
  text, lowering = _lower(f'''
    p0 = {_F} parameter(0), sharding={_X}
    b = f32[] custom-call(p0), {_bind(_say((0, None), (1, 4)))}
    n = {_F} negate(p0)
    ROOT t = ({_F}, {_F}, f32[]) tuple(n, p0, b)''')
  assert_printed(
      text, '''\
{xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=4]>}}
ENTRY e (p0: f32[8,8]) -> (f32[8,8], f32[8,8], f32[]) {
  p0 = F parameter(0), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate},
      attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{'x'}p1, {}]>"}
  added0 = F custom-call(p0), "Sharding", sharding={devices=[2,1,4]<=[8]
      last_tile_dim_replicate},
      attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{'x'}p1,
      {?}p4]>]>"}
  n = F negate(added0)
  b = f32[] constant(0)
  ROOT t = (F, F, f32[]) tuple(n, added0, b)
}''')
  # The record tells what was asked for, and no result is promised.
  tensor, = lowering.tensors
  assert tensor.sdy == '#sdy.sharding<@mesh, [{"x"}p1, {?}p4]>'
  assert lowering.results == {}


def test_sharding_calls_and_pinned_results():
  """A tagged one, one that nobody spoke of, and both as results."""
  text, lowering = _lower(f'''
    p0 = {_F} parameter(0), sharding={_X}
    k = {_F} custom-call(p0), {_tag(_say((None, 1), (None, 1)))}
    c = {_F} custom-call(k), custom_call_target="Sharding",
      sharding={{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}}
    d = {_F} custom-call(c), custom_call_target="Sharding", sharding={_X}
    n = {_F} negate(d)
    ROOT t = ({_F}, {_F}, {_F}) tuple(c, n, d)''')
  _, body = text.split('\n', 1)
  assert_printed(
      body, '''\
ENTRY e (p0: f32[8,8]) -> (f32[8,8], f32[8,8], f32[8,8]) {
  p0 = F parameter(0), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate},
      attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{'x'}p2, {}]>"}
  c = F custom-call(p0), "Sharding", sharding={devices=[1,4,2]<=[2,4]T(1,0)
      last_tile_dim_replicate},
      attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{},
      {'y'}p1]>]>"}
  added0 = F custom-call(c), "xla.sdy.FuncResultSharding",
      attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{},
      {'y'}p1]>]>"}
  d = F custom-call(c), "Sharding", sharding={devices=[2,1,4]<=[8]
      last_tile_dim_replicate},
      attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{'x'}p2,
      {}]>]>"}
  n = F negate(d)
  added1 = F custom-call(d), "xla.sdy.FuncResultSharding",
      attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{'x'}p2,
      {}]>]>"}
  ROOT t = (F, F, F) tuple(added0, n, added1)
}''')
  assert {
      k: str(v.canonical()) for k, v in lowering.results.items()
  } == {
      0: '{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}',
      2: _X
  }
  assert [(t.parameter, t.instruction, t.source) for t in lowering.tensors
         ] == [(0, 'p0', ('p0', 'parameter')), (None, 'c', ('p0', 'parameter')),
               (None, 'd', ('c', 'custom-call'))]


def test_root_that_is_no_tuple():
  text, lowering = _lower(f'''
    p0 = {_F} parameter(0)
    k = {_F} custom-call(p0), {_tag(_say((0, None)))}
    ROOT c = {_F} custom-call(k), custom_call_target="Sharding", sharding={_X}
    ''')
  assert "ROOT added0 = F custom-call(c), \"xla.sdy.FuncResultSharding\"" in (
      text)
  assert list(lowering.results) == [0]


def test_root_with_a_sharding_of_its_own():
  text, lowering = _lower(f'''
    p0 = {_F} parameter(0)
    ROOT s = {_F} add(p0, p0), sharding={_X}''')
  assert 'added0 = F custom-call(s), "Sharding"' in text
  assert 'ROOT added1 = F custom-call(added0), "xla.sdy.FuncResultSharding"' in (
      text)
  assert list(lowering.results) == [0]


def test_same_result_twice():
  text, lowering = _lower(f'''
    p0 = {_F} parameter(0)
    k = {_F} custom-call(p0), {_tag(_say((0, None)))}
    c = {_F} custom-call(k), custom_call_target="Sharding", sharding={_X}
    ROOT t = ({_F}, {_F}) tuple(c, c)''')
  assert 'ROOT t = (F, F) tuple(added0, added1)' in text
  assert list(lowering.results) == [0, 1]


def test_open_result_is_left_to_shardy():
  text, lowering = _lower(f'''
    p0 = {_F} parameter(0)
    k = {_F} custom-call(p0), {_tag(_say((0, None), (None, 0)))}
    ROOT c = {_F} custom-call(k), custom_call_target="Sharding", sharding={_X}
    ''')
  assert 'FuncResult' not in text
  assert "[{'x'}, {?}p0]" in text
  assert lowering.results == {}


def test_sharding_on_an_operation_becomes_a_constraint():
  """The program with which torch_xla reads a tensor has one."""
  text, lowering = _lower(f'''
    p0 = {_F} parameter(0), sharding={_X}
    b = f32[] custom-call(p0), {_bind(_say((0, None), (0, None)))}
    z = f32[] constant(0), sharding={{replicated}}
    w = {_F} broadcast(z), dimensions={{}}, sharding={_MINOR_X}
    s = {_F} add(p0, w), sharding={{replicated}}
    ROOT t = ({_F}, f32[]) tuple(s, b)''')
  assert "added0 = F custom-call(w), \"Sharding\", sharding=" + _MINOR_X in (
      text)
  assert "[{}, {'x'}p1]" in text
  assert "s = F add(p0, added0)\n" in text
  assert "custom-call(s), \"Sharding\", sharding={replicated}" in text
  assert "[<@mesh, [{}, {}]>]" in text
  assert {k: str(v) for k, v in lowering.results.items()} == {0: '{replicated}'}
  # The one on the operation itself is gone.
  assert "z = f32[] constant(0)\n  w = F broadcast(z), dimensions={}\n" in text
  # Nothing is to be said of a scalar.
  assert 'custom-call(z)' not in text


def test_annotation_of_another_placement_says_nothing():
  """The tensor was placed anew since."""
  text, lowering = _lower(f'''
    p0 = {_F} parameter(0), sharding={_Y}
    p1 = {_F} parameter(1)
    ROOT b = f32[] custom-call(p0, p1), {_bind(_say((0, None), (1, None)),
                                               _say((1, None), (0, None)))}''')
  assert "[{'y'}p2, {}]" in text and '[{}, {}]' in text
  assert [t.spec for t in lowering.tensors] == [None, None]


def test_permuted_mesh():
  mesh = UserMesh.from_devices((2, 4), ('x', 'y'), (0, 2, 1, 3, 7, 6, 5, 4))
  said = _say((1, 0), (0, 1), mesh)
  text, _ = _lower(f'''
    p0 = {_F} parameter(0), sharding={said.sharding}
    ROOT b = f32[] custom-call(p0), {_bind(said)}''')
  meshes, body = text.split('\n', 1)
  assert meshes == ('{xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=4], '
                    'device_ids=[0, 2, 1, 3, 7, 6, 5, 4]>}}')
  assert "[{'y'}p0, {'x'}p1]" in body


_LINE = UserMesh.from_devices((8,), ('d',))


def test_while_body():
  """Constraints in it; its parameter is none of the program's."""
  pair = f'({_F}, f32[])'
  text, lowering = _lower(
      f'''
    p0 = {_F} parameter(0), sharding={_X}
    z = f32[] constant(0)
    t = {pair} tuple(p0, z)
    w = {pair} while(t), condition=more, body=step
    ROOT r = {_F} get-tuple-element(w), index=0''',
      others=f'''
step {{
  q = {pair} parameter(0)
  g = {_F} get-tuple-element(q), index=0
  s = {_F} negate(g)
  k = {_F} custom-call(s), {_tag(_say((0, None), (3, None)))}
  c = {_F} custom-call(k), custom_call_target="Sharding", sharding={_X}
  n = f32[] get-tuple-element(q), index=1
  ROOT o = {pair} tuple(c, n)
}}

more {{
  u = {pair} parameter(0)
  ROOT no = pred[] constant(false)
}}
''')
  body = text[text.index('step'):text.index('more')]
  assert body.count('xla.sdy.sharding=') == 1
  assert "[{'x'}p3, {}]" in body
  assert 'FuncResult' not in text
  assert lowering.results == {}
  assert [t.instruction for t in lowering.tensors] == ['p0', 'c']


def test_sharding_on_an_operation_in_a_nested_computation():
  """jaxlib's ids: XLA refuses two with the same lower half."""
  text, _ = _lower(
      f'''
    p0 = {_F} parameter(0), sharding={_X}
    k = {_F} custom-call(p0), {_tag(_say((0, None), (3, None)))}
    c = {_F} custom-call(k), custom_call_target="Sharding", sharding={_X}
    ROOT r = {_F} call(c), to_apply=step''',
      others=f'''
step {{
  q = {_F} parameter(0)
  s = {_F} negate(q), sharding={_Y}
  u = {_F} negate(s)
  v = {_F} negate(u)
  w = {_F} negate(v)
  ROOT o = {_F} negate(w)
}}
''')
  body = text[text.index('step'):text.index('ENTRY')]
  assert "[{'y'}p4, {}]" in body
  assert body.count('xla.sdy.sharding=') == 1


@pytest.mark.parametrize('entry, message', [
    (f'''p0 = {_F} parameter(0), sharding={{maximal device=3}}
      ROOT b = f32[] custom-call(p0), {_bind(_say((0, None)))}''',
     'the sharding {maximal device=3}'),
    (f'''p0 = ({_F}, {_F}) parameter(0), sharding={{{_X}, {_X}}}
      p1 = {_F} parameter(1)
      g = {_F} get-tuple-element(p0), index=0
      ROOT b = f32[] custom-call(g, p1), {_bind(_say((0, None)),
                                                _say((None, None)))}''',
     'parameters that are handed over as one tuple'),
    (f'''p0 = {_F} parameter(0), sharding={_X}
      t = ({_F}, {_F}) tuple(p0, p0), sharding={{{_X}, {_X}}}
      b = f32[] custom-call(p0), {_bind(_say((0, None)))}
      ROOT u = (({_F}, {_F}), f32[]) tuple(t, b)''',
     'a sharding on the tuple t'),
    (f'''p0 = {_F} parameter(0), sharding={{devices=[2,2]<=[4]}}
      ROOT b = f32[] custom-call(p0), {_bind(_say((0, None)))}''',
     'over 4 of 8 devices'),
    (f'''p0 = {_F} parameter(0), sharding={{devices=[8,1]7,1,2,3,4,5,6,0}}
      ROOT b = f32[] custom-call(p0), {_bind(_say((0, None)))}''',
     'over #sdy.mesh<["x"=2, "y"=4]>'),
    (f'''p0 = f32[8]{{0}} parameter(0), sharding={_X}
      ROOT b = f32[] custom-call(p0), {_bind(_say((None,)))}''',
     'on a tensor of rank 1'),
])
def test_what_cannot_be_said(entry, message):
  with pytest.raises(InexpressibleError) as raised:
    _lower(entry)
  assert message in str(raised.value)
