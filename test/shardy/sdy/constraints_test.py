"""What is said in Shardy's terms, of programs in whatever format."""

import pytest
from torch_xla.shardy.annotate.annotation import Annotation, UserMesh
from torch_xla.shardy.sdy import attributes, constraints
from torch_xla.shardy.sdy.constraints import Site
from torch_xla.shardy.sdy.mesh_axes import InexpressibleError
from torch_xla.shardy.sharding.text import parse_sharding

_MESH = UserMesh.from_devices((2, 4), ('x', 'y'))
_LINE = UserMesh.from_devices((8,), ('d',))
_FOUR_TWO = UserMesh.from_devices((4, 2), ('a', 'b'))
_X = '{devices=[2,1,4]<=[8] last_tile_dim_replicate}'
_Y = '{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}'


def _say(spec, priority=None, mesh=_MESH) -> Annotation:
  return Annotation.from_spec(mesh, spec, priority)


def _placed(text: str, said=None, rank: int = 2) -> Site:
  return Site(parse_sharding(text), rank, said)


def _said(said: Annotation) -> Site:
  """A tensor that is placed as was said."""
  return Site(said.sharding, len(said.partition_spec), said)


def _lower(*sites: Site, also=(), num_devices: int = 8, meshes=()):
  """The mesh, and the text of each site."""
  annotations = [s.annotation for s in sites if s.annotation] + list(also)
  mesh, decided = constraints.decide(
      dict(enumerate(sites)), annotations, num_devices, meshes)
  assert list(decided) == list(range(len(sites)))
  return str(mesh), [
      attributes.text(mesh, constraint.dims) for constraint in decided.values()
  ]


def test_no_annotation():
  """Axes of a made-up mesh, as few as do, and no priorities."""
  assert _lower(
      _placed(_X),
      _placed('{replicated}')) == ('#sdy.mesh<["axis_0"=2, "axis_1"=4]>', [
          '<@mesh, [{"axis_0"}, {}]>', '<@mesh, [{}, {}]>'
      ])
  assert _lower() == ('#sdy.mesh<["axis_0"=8]>', [])


@pytest.mark.parametrize('given, unsaid', [(0, 1), (5, 6), (41, 42)])
def test_what_no_user_said_comes_last(given, unsaid):
  _, (first, second) = _lower(_said(_say((0, None), (given, None))),
                              _placed(_Y))  # yapf: disable
  assert first == f'<@mesh, [{{"x"}}p{given}, {{}}]>'
  assert second == f'<@mesh, [{{"y"}}p{unsaid}, {{}}]>'


def test_no_priorities_where_no_user_gave_any():
  _, texts = _lower(_said(_say((0, None), (None, None))), _placed(_Y))
  assert texts == ['<@mesh, [{"x"}, {}]>', '<@mesh, [{"y"}, {}]>']


def test_priorities_of_annotations_that_place_nothing_count():
  """The tensor was placed anew since; its priorities still are the users'."""
  stale = _say((1, None), (7, None))
  _, texts = _lower(_placed(_X, stale), also=[_say((0, None), (2, None))])
  assert texts == ['<@mesh, [{"x"}p8, {}]>']


@pytest.mark.parametrize('rank, said', [(1, _say((None, None), (0, None))),
                                        (3, _say((None, None))),
                                        (0, _say((None,), (2,)))])
def test_annotation_of_another_rank(rank, said):
  mesh, decided = constraints.decide(
      dict(a=_placed('{replicated}', said, rank)), [said], 8)
  assert decided['a'].annotation is None
  assert decided['a'].dims == (attributes.DimSharding(),) * rank
  assert str(mesh) == '#sdy.mesh<["x"=2, "y"=4]>'


def test_open_and_closed():
  """What is stored is closed, and open only what is not split."""
  said = _say((0, None), (1, 4))
  _, decided = constraints.decide(dict(a=_said(said)), [said], 8)
  constraint = decided['a']
  assert constraint.is_open and constraint.annotation is said
  assert str(constraint.placement) == str(said.sharding)
  mesh = attributes.Mesh((('x', 2), ('y', 4)))
  assert attributes.text(mesh, constraint.dims) == '<@mesh, [{"x"}p1, {?}p4]>'
  assert attributes.text(mesh, constraint.closed) == '<@mesh, [{"x"}p1, {}]>'
  whole = constraints.Constraint((attributes.DimSharding(),),
                                 parse_sharding('{replicated}'), None)
  assert not whole.is_open and whole.closed == whole.dims


@pytest.mark.parametrize(
    'meshes, mesh, shardings',
    [
        # The one that most tensors use, and no sub-axes where another says it
        # without: 2x4 says what 8 does.
        ((_MESH, _MESH, _LINE), '["x"=2, "y"=4]',
         ['[{"x"}, {}]', '[{"x"}, {}]', '[{"x", "y"}, {}]']),
        ((_MESH, _LINE, _LINE), '["x"=2, "y"=4]',
         ['[{"x"}, {}]', '[{"x", "y"}, {}]', '[{"x", "y"}, {}]']),
        ((_LINE, _LINE), '["d"=8]', ['[{"d"}, {}]', '[{"d"}, {}]']),
        ((_MESH, _LINE), '["x"=2, "y"=4]', ['[{"x"}, {}]', '[{"x", "y"}, {}]']),
        ((_LINE, _MESH), '["x"=2, "y"=4]', ['[{"x", "y"}, {}]', '[{"x"}, {}]']),
        # 4x2: neither says the other's without.
        ((_MESH, _FOUR_TWO, _FOUR_TWO), '["a"=4, "b"=2]',
         ['[{"a":(1)2}, {}]', '[{"a"}, {}]', '[{"a"}, {}]']),
    ])
def test_several_meshes(meshes, mesh, shardings):
  assert _lower(*(_said(_say((0, None), None, m)) for m in meshes)) == (
      f'#sdy.mesh<{mesh}>', [f'<@mesh, {s}>' for s in shardings])


@pytest.mark.parametrize(
    'sites, meshes, mesh, shardings',
    [
        # Nobody names one: the first, and the first that needs no sub-axes.
        ([], (_LINE, _MESH), '["d"=8]', []),
        ([_placed(_X)], (_MESH, _LINE), '["x"=2, "y"=4]', ['[{"x"}, {}]']),
        ([_placed(_X)], (_LINE, _MESH), '["x"=2, "y"=4]', ['[{"x"}, {}]']),
        ([_placed(_X)], (_LINE,), '["d"=8]', ['[{"d":(1)2}, {}]']),
        # Those of other devices are none.
        ([_placed(_X)], (UserMesh.from_devices(
            (4,), None),), '["axis_0"=2, "axis_1"=4]', ['[{"axis_0"}, {}]']),
        # The program's own come first, whatever it is that others say.
        ([_said(_say(
            (0, None), None, _LINE))], (_MESH,), '["d"=8]', ['[{"d"}, {}]']),
        ([_said(_say((0, None), None, _LINE)),
          _placed(_X)], (_FOUR_TWO, _MESH), '["x"=2, "y"=4]',
         ['[{"x", "y"}, {}]', '[{"x"}, {}]']),
        ([_said(_say((0, None), None, _LINE)),
          _placed(_X)],
         (_FOUR_TWO,), '["d"=8]', ['[{"d"}, {}]', '[{"d":(1)2}, {}]']),
    ])
def test_meshes_of_the_process(sites, meshes, mesh, shardings):
  assert _lower(
      *sites, meshes=meshes) == (f'#sdy.mesh<{mesh}>',
                                 [f'<@mesh, {s}>' for s in shardings])


def test_no_mesh_of_the_process_stands_in_for_one_that_does_not_fit():
  said = _say((0, None), None, UserMesh.from_devices((9, 4), ('x', 'y')))
  with pytest.raises(InexpressibleError, match='a mesh of 36 devices'):
    _lower(_placed(_X, said), meshes=(_MESH,))


def test_the_less_used_mesh_where_the_other_does_not_do():
  """4x3 devices do not divide as 3x4 do; replicated is said over either."""
  most, least = UserMesh.from_devices(
      (4, 3), ('a', 'b')), UserMesh.from_devices((3, 4), ('c', 'd'))
  whole = _say((None, None), None, most)
  mesh, texts = _lower(
      _said(whole),
      _said(whole),
      _said(_say((0, 1), None, least)),
      num_devices=12)
  assert mesh == '#sdy.mesh<["c"=3, "d"=4]>'
  assert texts == ['<@mesh, [{}, {}]>'] * 2 + ['<@mesh, [{"c"}, {"d"}]>']


def test_meshes_that_have_nothing_in_common():
  with pytest.raises(InexpressibleError, match='over #sdy.mesh'):
    _lower(
        *(_said(_say((0, 1), None, UserMesh.from_devices(shape, None)))
          for shape in [(4, 3), (3, 4)]),
        num_devices=12)


@pytest.mark.parametrize('num_devices', [1, 4, 16])
def test_mesh_of_other_devices(num_devices):
  with pytest.raises(
      InexpressibleError,
      match='a mesh of 8 devices in a '
      f'program for {num_devices}'):
    _lower(_placed('{replicated}', _say((None, None))), num_devices=num_devices)


@pytest.mark.parametrize('text', [
    '{manual}', '{maximal device=3}', '{devices=[2,2]<=[4]}',
    '{devices=[8,1]7,1,2,3,4,5,6,0}', '{devices=[2,1,4]<=[8]}'
])
def test_what_cannot_be_said(text):
  """Other devices, another order of them, or no tiles at all cannot be."""
  with pytest.raises(InexpressibleError):
    _lower(_placed(text), _said(_say((0, None))))
