"""The meshes of programs in which nobody names one: those of the process."""

import gc
import itertools
import re

import environments
import numpy as np
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy.annotate.annotation import UserMesh
from torch_xla.shardy.bind.meshes import Meshes
from torch_xla.shardy.hlo import messages, protos

ENVIRONMENT = environments.SHARDY
_STABLEHLO = pytest.mark.environment(XLA_STABLEHLO_COMPILE='1')


@pytest.fixture(name='mesh', autouse=True)
def mesh_fixture() -> xs.Mesh:
  xr.use_spmd()  # Before the first device.
  return _mesh((2, 4), ('batch', 'model'))


def _mesh(shape, names=None, ids=range(8)) -> xs.Mesh:
  return xs.Mesh(np.array(ids), shape, names)


def _meshes(programs) -> set[str]:
  """The meshes as the backend got them."""
  found = set()
  for program in programs:
    if program.format == 'hlo':
      module = messages.parse(protos.HloModuleProto, program.handed_on)
      text, = (
          a.value
          for a in module.frontend_attributes.map
          if a.key == 'xla.sdy.meshes')
    else:
      dialects = pytest.importorskip('torch_xla.shardy.stablehlo.dialects')
      text = dialects.text(dialects.read(program.handed_on))
    found.add(re.search('mesh = .*?<(.*?)>', text)[1])
  return found


@pytest.mark.parametrize('leaves_as', [
    pytest.param('hlo', marks=pytest.mark.environment()),
    pytest.param('mlir', marks=_STABLEHLO),
])
def test_a_process_with_one_mesh_has_no_other(mesh, leaves_as):
  with torch_xla.shardy.record() as programs:
    a = torch.arange(8, device='xla') * 2
    torch_xla.sync()
    a.cpu()
    x, w = torch.randn(16, 16).to('xla'), torch.randn(16, 16).to('xla')
    xs.mark_sharding(x, mesh, (('batch', 'model'), None))
    xs.mark_sharding(w, mesh, ('model', None))
    torch_xla.sync()
    x.cpu(), w.cpu()
    y = torch.relu(x @ w)
    torch_xla.sync()
    z = y + 1
    torch_xla.sync()
    z.cpu()
    s = y.sum()
    torch_xla.sync()
    s.item()
  assert len(programs) > 5 and {p.format for p in programs} == {leaves_as}
  assert _meshes(programs) == {'["batch"=2, "model"=4]'}


@pytest.mark.environment()
def test_sub_axes_where_no_mesh_says_it_without(mesh):
  """Most tensors name a line of eight, and 2x4 says that, too."""
  line = _mesh((8,), ('d',))
  with torch_xla.shardy.record() as programs:
    a, b, c = (torch.ones(16, 16).to('xla') for _ in range(3))
    xs.mark_sharding(a, line, ('d', None), priority=(0, None))
    xs.mark_sharding(b, line, ('d', None), priority=(0, None))
    xs.mark_sharding(c, mesh, ('batch', 'model'), priority=(2, 3))
    d = a + b + c
    torch_xla.sync()
    d.cpu()
  assert _meshes(programs) == {'["batch"=2, "model"=4]'}
  assert {
      t.spec: t.sdy for t in programs[0].tensors if t.spec
  } == {
      "('d', None)": '#sdy.sharding<@mesh, [{"batch", "model"}p0, {}]>',
      "('batch', 'model')": '#sdy.sharding<@mesh, [{"batch"}p2, {"model"}p3]>'
  }


def test_their_order_is_that_of_what_they_are():
  """Whichever was made first, or lives."""
  made = [
      _mesh((8,), ('d',)),
      _mesh((2, 2, 2), ('x', 'y', 'z'), (7, 1, 2, 3, 4, 5, 6, 0)),
      _mesh((2, 2, 2)),
      _mesh((2, 2, 2), ('x', 'y', 'z')),
      _mesh((2, 2, 2, 1), ('x', 'y', 'z', 'w')),
      _mesh((4, 2), ('x', 'y')),
      _mesh((2, 4), ('x', 'y')),
      _mesh((2, 4), ('a', 'y')),
  ]
  orders = set()
  for order in itertools.islice(itertools.permutations(made), 0, None, 4001):
    meshes = Meshes()
    for mesh in order:
      meshes.add(mesh)
      meshes.add(mesh)
    del mesh
    orders.add(meshes.ordered())
  order, = orders
  assert [(m.axis_names or ()) for m in order] == [
      ('x', 'y', 'z'), (), ('x', 'y', 'z', 'w'), ('x', 'y', 'z'), ('a', 'y'),
      ('x', 'y'), ('x', 'y'), ('d',)]  # yapf: disable
  assert order[3].device_ids is not None and order[6].shape == (4, 2)


def test_a_dead_one_counts_and_the_global_one_comes_first():
  meshes = Meshes()
  meshes.add(_mesh((2, 2, 2)))
  gc.collect()
  assert meshes.ordered() == (UserMesh.from_devices((2, 2, 2), None),)
  xs.set_global_mesh(_mesh((8,), ('d',)))
  try:
    assert meshes.ordered() == (UserMesh.from_devices(
        (8,), ('d',)), UserMesh.from_devices((2, 2, 2), None))
  finally:
    xs.set_global_mesh(None)
