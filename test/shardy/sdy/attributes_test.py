"""Shardy's meshes and shardings as text, judged by jaxlib's own verifier."""

import math

from hypothesis import example, given, strategies as st
from properties import examples
import pytest
from torch_xla.shardy.sdy import attributes
from torch_xla.shardy.sdy.attributes import DimSharding, Mesh, SdyError, SubAxis

pytest.importorskip(
    'jaxlib.mlir.dialects.sdy', reason='needs jaxlib: its verifier judges')
_MESH = Mesh((('x', 2), ('y', 4), ('one', 1)))
_X, _Y, _ONE = SubAxis('x'), SubAxis('y'), SubAxis('one')


def _context():
  from jaxlib.mlir import ir
  from jaxlib.mlir._mlir_libs import _jax_mlir_ext
  from jaxlib.mlir.dialects import sdy as dialect
  registry = ir.DialectRegistry()
  _jax_mlir_ext.register_dialects(registry)
  context = ir.Context()
  context.append_dialect_registry(registry)
  context.load_all_available_dialects()
  dialect.register_dialect(context)
  return context


_CONTEXT = _context()


def _printed(attribute: str) -> str:
  """What Shardy prints after parsing an attribute."""
  from jaxlib.mlir import ir
  with _CONTEXT:
    return str(ir.Attribute.parse(attribute))


def _refused(mesh: str, sharding: str, rank: int) -> str:
  """Why Shardy's verifier refuses them; empty if it does not."""
  from jaxlib.mlir import ir
  shape = 'x'.join(['8'] * rank + ['f32'])
  text = f'''
    sdy.mesh @mesh = {mesh.removeprefix("#sdy.mesh")}
    func.func @f(%a: tensor<{shape}> {{sdy.sharding = {sharding}}}) -> () {{
      return
    }}'''
  with _CONTEXT:
    try:
      ir.Module.parse(text)
    except ir.MLIRError as e:
      return str(e)
  return ''


def _unchecked(dims) -> str:
  """The text of a sharding, without any check of it."""
  return f'#sdy.sharding<@mesh, [{", ".join(map(str, dims))}]>'


def _dim(**fields) -> DimSharding:
  """A dimension, its own checks left out."""
  dim = object.__new__(DimSharding)
  for name, value in {
      'axes': (),
      'closed': True,
      'priority': None,
      **fields
  }.items():
    object.__setattr__(dim, name, value)
  return dim


def _mesh(axes, device_ids=None) -> Mesh:
  """A mesh, its checks left out."""
  mesh = object.__new__(Mesh)
  object.__setattr__(mesh, 'axes', axes)
  object.__setattr__(mesh, 'device_ids', device_ids)
  return mesh


@pytest.mark.parametrize(
    'dims, expected',
    [
        ((), '[]'),
        ((DimSharding(),), '[{}]'),
        ((DimSharding(closed=False),), '[{?}]'),
        ((DimSharding(closed=False, priority=3),), '[{?}p3]'),
        ((DimSharding((_X,), priority=0),), '[{"x"}p0]'),
        ((DimSharding((_X, _Y)), DimSharding(
            (_ONE,))), '[{"x", "y"}, {"one"}]'),
        ((DimSharding((_Y,), False, 12), DimSharding()), '[{"y", ?}p12, {}]'),
        ((DimSharding(
            (SubAxis('y', 1, 2), _X)), DimSharding(
                (SubAxis('y', 2, 2),))), '[{"y":(1)2, "x"}, {"y":(2)2}]'),
        # Not in order, so they are not one.
        ((DimSharding((SubAxis('y', 2, 2), SubAxis(
            'y', 1, 2))),), '[{"y":(2)2, "y":(1)2}]'),
    ])
def test_text_is_what_shardy_prints(dims, expected):
  attribute = attributes.sharding_attribute(_MESH, dims)
  assert attribute == f'#sdy.sharding<@mesh, {expected}>'
  assert _printed(attribute) == attribute
  per_value = attributes.sharding_per_value(_MESH, dims)
  assert per_value == f'#sdy.sharding_per_value<[<@mesh, {expected}>]>'
  assert _printed(per_value) == per_value
  assert not _refused(str(_MESH), attribute, len(dims))


@pytest.mark.parametrize('mesh, expected', [
    (Mesh(()), '#sdy.mesh<[]>'),
    (Mesh((('x', 8),)), '#sdy.mesh<["x"=8]>'),
    (Mesh((('x', 2), ('y', 2)),
          (3, 1, 2, 0)), '#sdy.mesh<["x"=2, "y"=2], device_ids=[3, 1, 2, 0]>'),
    (Mesh((('a.b-c_1', 2), ('_', 1))), '#sdy.mesh<["a.b-c_1"=2, "_"=1]>'),
])
def test_mesh_is_what_shardy_prints(mesh, expected):
  assert str(mesh) == expected
  assert attributes.meshes_attribute(mesh) == f'{{mesh = {expected}}}'
  assert _printed(attributes.meshes_attribute(mesh)) == f'{{mesh = {expected}}}'
  assert not _refused(str(mesh), '#sdy.sharding<@mesh, []>', 0)
  assert mesh.num_devices == math.prod(size for _, size in mesh.axes)


@pytest.mark.parametrize('axes, device_ids, message', [
    ((('x', 2), ('x', 4)), None, "share a name: ['x', 'x']"),
    ((('x', 0),), None, "mesh axis 'x' has size 0"),
    ((('x', 2),), (0, 2), 'device ids (0, 2) are not those of 2 devices'),
    ((('x', 2),), (0, 0), 'device ids (0, 0) are not those of 2 devices'),
    ((('x', 2),), (1,), 'device ids (1,) are not those of 2 devices'),
])
def test_meshes_that_shardy_refuses_too(axes, device_ids, message):
  with pytest.raises(SdyError) as raised:
    Mesh(axes, device_ids)
  assert message in str(raised.value)
  mesh = str(_mesh(axes, device_ids))
  assert _refused(mesh, '#sdy.sharding<@mesh, []>', 0)


@pytest.mark.parametrize('name', ['', 'a b', 'a"b', 'é', 'a\n', '-', 'a\\'])
def test_axis_names_that_stay_out_of_the_text(name):
  assert not attributes.is_axis_name(name)
  with pytest.raises(SdyError, match='is not a name for a mesh axis'):
    Mesh(((name, 2),))


def test_plain_device_order_is_left_out():
  """Shardy itself leaves it out."""
  with pytest.raises(SdyError, match='must be left out'):
    Mesh((('x', 2),), (0, 1))
  listed = str(_mesh((('x', 2),), (0, 1)))
  assert _printed(listed) == str(Mesh((('x', 2),)))


@pytest.mark.parametrize('fields, message', [
    (dict(priority=1), 'an empty closed dimension takes no priority'),
    (dict(closed=False, priority=-1), 'priority -1 is no number of 63 bits'),
])
def test_dimensions_that_shardy_refuses_too(fields, message):
  with pytest.raises(SdyError, match=message):
    DimSharding(**fields)
  assert _refused(str(_MESH), _unchecked([_dim(**fields)]), 1)


@pytest.mark.parametrize('axes, message', [
    ([[SubAxis('z')]], 'axis "z" is not one of #sdy.mesh'),
    ([[_X, _X]], 'axis "x" is used twice'),
    ([[_X], [_X]], 'axis "x" is used twice'),
    ([[_ONE], [_ONE]], 'axis "one" is used twice'),
    ([[_Y], [SubAxis('y', 1, 2)]], 'axis "y":.1.2 is used twice'),
    ([[SubAxis('y', 1, 2)], [SubAxis('y', 1, 2)]], 'is used twice'),
    ([[SubAxis('y', 1, 4)]], '"y":.1.4 is no part of an axis of size 4'),
    ([[SubAxis('y', 1, 3)]], '"y":.1.3 is no part of an axis of size 4'),
    ([[SubAxis('y', 2, 4)]], '"y":.2.4 is no part of an axis of size 4'),
    ([[SubAxis('y', 1, 1)]], '"y":.1.1 is no part of an axis of size 4'),
    ([[SubAxis('y', 1, 2), SubAxis('y', 2, 2)]
     ], '"y":.2.2 continues the sub-axis before it'),
])
def test_shardings_that_shardy_refuses_too(axes, message):
  dims = tuple(DimSharding(tuple(a)) for a in axes)
  for write in (attributes.text, attributes.sharding_attribute,
                attributes.sharding_per_value):
    with pytest.raises(SdyError, match=message):
      write(_MESH, dims)
  assert _refused(str(_MESH), _unchecked(dims), len(dims))


_BIG = Mesh((('x', 12), ('y', 8), ('z', 1)))
_axes = st.builds(SubAxis, st.sampled_from('xxxyyyzw'),
                  st.sampled_from([1, 1, 2, 3, 4, 6]),
                  st.sampled_from([
                      None, 1, 2, 2, 3, 4, 6, 12
                  ])).map(lambda a: SubAxis(a.name) if a.size is None else a)
_dims = st.lists(
    st.builds(
        _dim,
        axes=st.lists(_axes, max_size=3).map(tuple),
        closed=st.booleans(),
        priority=st.sampled_from([None, None, 0, 3])),
    max_size=3)


@examples(800, derandomize=True)
@example(
    [_dim(axes=(SubAxis('y', pre, size),)) for pre, size in ((1, 4), (2, 2))])
@given(_dims)
def test_whatever_shardy_refuses_is_refused_and_nothing_else(dims):
  refused = _refused(str(_BIG), _unchecked(dims), len(dims))
  try:
    checked = tuple(DimSharding(d.axes, d.closed, d.priority) for d in dims)
    attributes.check(_BIG, checked)
    error = ''
  except SdyError as e:
    error = str(e)
  assert bool(error) == bool(refused), (dims, error, refused)
