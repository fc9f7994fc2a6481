"""Shardings in Shardy's text read back: our own, and what others write."""

import doctest
import itertools
import math

from hypothesis import given, strategies as st
from properties import examples
import pytest
from torch_xla.shardy.annotate.annotation import Annotation, UserMesh
from torch_xla.shardy.sdy import attributes, from_text, mesh_axes
from torch_xla.shardy.sdy.attributes import SdyError
from torch_xla.shardy.sharding.text import parse_sharding

_XY = {'mesh': '#sdy.mesh<["x"=2, "y"=4]>'}


def test_docstring():
  failed, run = doctest.testmod(from_text)
  assert run and not failed


@st.composite
def _meshes(draw, num_devices=8) -> UserMesh:
  """Meshes of as many devices, in any order; axes of size 1 among others."""
  shape, left = [], num_devices
  while left > 1:
    size = draw(
        st.sampled_from([n for n in range(1, left + 1) if left % n == 0]))
    shape.append(size)
    left //= size
    if len(shape) > 5:
      shape, left = [*shape, left], 1
  ids = draw(st.one_of(st.none(), st.permutations(range(math.prod(shape)))))
  return UserMesh.from_devices(shape, None, ids)


@st.composite
def _annotations(draw, num_devices=8) -> Annotation:
  mesh = draw(_meshes(num_devices))
  axes = draw(st.permutations(range(len(mesh.shape))))
  count = draw(st.integers(0, len(axes)))
  rank = draw(st.integers(1, 3))
  ends = sorted(draw(st.lists(st.integers(0, count), min_size=rank - 1,
                              max_size=rank - 1)))  # yapf: disable
  spec = [
      axes[start:end] for start, end in itertools.pairwise((0, *ends, count))
  ]
  priority = draw(
      st.one_of(st.none(),
                st.tuples(*[st.one_of(st.none(), st.integers(0, 9))] * rank)))
  return Annotation.from_spec(mesh, spec, priority)


@examples(150)
@given(st.sampled_from([4, 6, 8, 12]).flatmap(_annotations))
def test_what_is_written_is_read(annotation):
  """Over its own mesh, whatever is open or has a priority."""
  mesh = mesh_axes.mesh_of(annotation.mesh)
  dims = mesh_axes.annotated_dims(annotation, mesh)
  rank = len(annotation.partition_spec)
  for text in (attributes.text(mesh,
                               dims), attributes.sharding_attribute(mesh,
                                                                    dims)):
    assert from_text.placement_of_text(text, {attributes.MESH_NAME: str(mesh)},
                                       rank) == annotation.sharding


@examples(150)
@given(_annotations(), _meshes())
def test_what_is_written_over_another_mesh_is_read(annotation, other):
  """It is read by sub-axes; where no mesh says it there is nothing to read."""
  mesh = mesh_axes.mesh_of(other)
  rank = len(annotation.partition_spec)
  try:
    dims = mesh_axes.dims_of(annotation.sharding, mesh, rank)
  except mesh_axes.InexpressibleError:
    return
  text = attributes.text(mesh, dims)
  assert from_text.placement_of_text(text, {attributes.MESH_NAME: str(mesh)},
                                     rank) == annotation.sharding


@pytest.mark.parametrize('text, expected', [
    ('<@mesh, [{"x"}, {}]>', '{devices=[2,1,4]<=[8] last_tile_dim_replicate}'),
    ('#sdy.sharding<@mesh, [{"x"}p3, {?}p1]>',
     '{devices=[2,1,4]<=[8] last_tile_dim_replicate}'),
    ('<@mesh, [{"y", ?}, {"x", ?}]>', '{devices=[4,2]<=[2,4]T(1,0)}'),
    ('<@mesh, [{}, {}], replicated={"x", "y"}>', '{replicated}'),
    ('<@mesh, [{?}, {?}], replicated={"y":(1)2}>', '{replicated}'),
    ('<@mesh, [{"x"}, {}], replicated={"y"}>',
     '{devices=[2,1,4]<=[8] last_tile_dim_replicate}'),
    ('<@mesh, [{"y":(2)2}, {"y":(1)2}]>',
     '{devices=[2,2,2]<=[2,2,2]T(2,1,0) last_tile_dim_replicate}'),
    ('<@mesh, [{"x"}, {}], unreduced={"y"}>',
     '{devices=[2,1,4]<=[8] last_tile_dims={unreduced}}'),
    ('<@mesh, [{"y":(1)2}, {}], replicated={"x"}, unreduced={"y":(2)2}>',
     '{devices=[2,1,2,2]<=[2,2,2]T(1,2,0) '
     'last_tile_dims={unreduced, replicated}}'),
    ('<@mesh, [{}, {}], unreduced={"x", "y"}>', '{unreduced}'),
    ('<mesh<["d"=8]>, [{"d"}, {}]>', '{devices=[8,1]<=[8]}'),
    ('<mesh<["d"=8], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>, [{}, {"d"}]>',
     '{devices=[1,8]7,6,5,4,3,2,1,0}'),
    ('<mesh<["d"=1]>, [{"d"}, {}]>', '{replicated}'),
    ('<mesh<[]>, [{}, {}]>', '{replicated}'),
])  # yapf: disable
def test_placements(text, expected):
  assert from_text.placement_of_text(text, _XY, 2) == parse_sharding(expected)


def test_scalars():
  assert str(from_text.placement_of_text('<@mesh, []>', _XY,
                                         0)) == '{replicated}'


def test_mesh_names():
  """Those that MLIR takes without quotes."""
  meshes = {'mesh_0.a-b': '#sdy.mesh<["a.b"=2, "c-d"=4]>'}
  sharding = from_text.placement_of_text('<@mesh_0.a-b, [{"c-d"}]>', meshes, 1)
  assert sharding == parse_sharding(
      '{devices=[4,2]<=[2,4]T(1,0) last_tile_dim_replicate}')


@pytest.mark.parametrize('text, message', [
    ('', 'is no sharding'),
    ('<@mesh, [{"x"}, {}]', 'is no sharding'),
    ('<@other, [{"x"}, {}]>', 'over the mesh @other, which is not there'),
    ('<@mesh, [{"x"}]>', 'on a tensor of rank 2'),
    ('<@mesh, [{"z"}, {}]>', 'axis "z" is not one of'),
    ('<@mesh, [{"y":(3)2}, {}]>', '"y":(3)2 is no part of an axis of size 4'),
    ('<mesh<["z"=12]>, [{"z":(1)2}, {"z":(3)2}]>', 'cut each other'),
    ('<mesh<nonsense>, [{"x"}, {}]>', 'is no mesh'),
])
def test_damaged(text, message):
  with pytest.raises(SdyError) as raised:
    from_text.placement_of_text(text, _XY, 2)
  assert message in str(raised.value)


@pytest.mark.parametrize('text', [
    '<@mesh, [{"x"}, {"x"}]>', '<@mesh, [{"y":(1)2}, {"y"}]>',
    '<@mesh, [{"x", "x"}, {}]>'
])
def test_an_axis_that_is_used_twice(text):
  with pytest.raises(ValueError):
    from_text.placement_of_text(text, _XY, 2)
