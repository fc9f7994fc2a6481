"""What `_XLAC` knows of shardings, to be compared between processes.

A process has one mode, so the sections below run in one of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.distributed.tensor import (DeviceMesh, distribute_module,
                                      distribute_tensor, init_device_mesh,
                                      Replicate, Shard)
import torch_xla
import torch_xla.debug.metrics as met
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy import current_mode, Mode

_COUNTERS = ('UncachedCompile', 'DynamoExtractCompiledGraph')


def mesh_2x4() -> xs.Mesh:
  return xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))


def put(shape: tuple[int, ...], spec: tuple, mesh: xs.Mesh) -> torch.Tensor:
  """Ascending numbers, sharded."""
  t = torch.arange(float(np.prod(shape))).reshape(shape).to('xla')
  xs.mark_sharding(t, mesh, spec)
  return t


def sync() -> None:
  torch_xla.sync(wait=True)


def specs_of(*tensors: torch.Tensor) -> list[str]:
  return torch_xla._XLAC._get_xla_sharding_specs(list(tensors))


def read_all(mode: Mode) -> dict[str, list[Any]]:
  """What each section gives in this process, which is in `mode`."""
  assert current_mode() is mode
  xr.use_spmd()
  torch.manual_seed(0)
  mesh = mesh_2x4()
  return {name: list(section(mesh)) for name, section in SECTIONS.items()}


def _outcome(compute: Callable[[], Any]) -> str:
  """What `compute` gives or raises, as text."""
  try:
    return str(compute())
  except Exception as e:  # pylint: disable=broad-except
    # Cut off before the proto's text, which protobuf varies on purpose.
    text = str(e).splitlines()[0].partition('goo.gle')[0]
    return f'{type(e).__name__} {text}'


def _counted(compute: Callable[[], Any]) -> list[int]:
  """How many programs `compute` has traced and compiled."""
  before = [met.counter_value(c) or 0 for c in _COUNTERS]
  compute()
  return [(met.counter_value(c) or 0) - b for c, b in zip(_COUNTERS, before)]


def _propagated(mesh: xs.Mesh) -> Iterator[Any]:
  x, w = put((16, 8), ('x', None), mesh), put((8, 16), (None, 'y'), mesh)
  a, b = x @ w, (x @ w) @ (x @ w).t()
  made = [
      a, b,
      a.sum(0),
      a.t() + 1,
      a.reshape(4, 4, 16), a[:, :4],
      torch.cat([a, a]),
      x.sum()
  ]
  sync()
  yield specs_of(x, w, *made)
  yield [t.cpu().double().sum().item() for t in made]


def _marked(mesh: xs.Mesh) -> Iterator[Any]:
  del mesh
  mesh = xs.Mesh(np.arange(8), (2, 2, 2), ('z', 'x', 'y'))
  ts = [
      put((8, 8), spec, mesh)
      for spec in [('z', 'x'), ('y', 'z'), (('z', 'y'),
                                            'x'), (('x', 'y'),
                                                   None), (None,
                                                           ('y', 'x',
                                                            'z')), (None, None)]
  ]
  yield specs_of(*ts)
  outs = [t + 1 for t in ts]
  sync()
  yield specs_of(*outs)


def _permuted(mesh: xs.Mesh) -> Iterator[Any]:
  del mesh
  for devices in [0, 2, 4, 6, 1, 3, 5, 7], [7, 6, 5, 4, 3, 2, 1, 0]:
    t = put((8, 8), ('y', None), xs.Mesh(np.array(devices), (2, 4), ('x', 'y')))
    out = t * 2
    sync()
    yield specs_of(t, out)
    yield out.cpu().sum().item()


def _training(mesh: xs.Mesh) -> Iterator[Any]:
  model = torch.nn.Sequential(
      torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32,
                                                                16)).to('xla')
  xs.mark_sharding(model[0].weight, mesh, ('y', None))
  xs.mark_sharding(model[2].weight, mesh, (None, 'y'))
  optimizer = torch.optim.Adam(model.parameters())
  for _ in range(3):
    data = put((8, 16), ('x', None), mesh)
    optimizer.zero_grad()
    out = model(data)
    (out - data).pow(2).mean().backward()
    optimizer.step()
    yield _counted(sync)
    yield specs_of(*model.parameters(), out)
  yield specs_of(*(s['exp_avg_sq'] for s in optimizer.state.values()))


def _marked_again(mesh: xs.Mesh) -> Iterator[Any]:

  def mark(t, spec):
    return lambda: xs.mark_sharding(t, mesh, spec).sharding_spec

  t = put((8, 8), ('x', 'y'), mesh)
  out = t + 1
  sync()
  yield specs_of(out)
  outcomes = []
  yield _counted(lambda: outcomes.append(_outcome(mark(out, ('x', 'y')))))
  yield outcomes
  yield _outcome(mark(out, ('y', 'x')))
  yield _outcome(mark(t, ('x', 'y')))
  part = put((8, 8), ('y', None), mesh) * 2
  sync()
  yield _outcome(mark(part, ('y', None)))
  yield specs_of(out, part)


def _resharded(mesh: xs.Mesh) -> Iterator[Any]:
  out = put((8, 8), ('x', 'y'), mesh) + 1
  sync()
  xs.clear_sharding(out)
  yield specs_of(out)
  xs.mark_sharding(out, mesh, ('y', None))
  yield specs_of(out)
  more = out * 2
  sync()
  yield specs_of(more)
  yield more.cpu().sum().item(), out.cpu().sum().item()


def _shards(mesh: xs.Mesh) -> Iterator[Any]:
  out = put((8, 8), ('x', 'y'), mesh) + 1
  sync()
  for t in put((8, 6), ('x', 'y'), mesh), out:
    wrapped = xs.wrap_if_sharded(t)
    yield str(wrapped.sharding_type), wrapped.sharding_spec
    for shard in wrapped.local_shards:
      # Without `shard_device`: the CPU has another name in V2 mode.
      yield (shard.data.tolist(), str(shard.indices), shard.replica_id,
             str(shard.unpadded_data.shape))
  shards = wrapped.local_shards
  for shard in shards:
    shard.data.fill_(3)
  wrapped.load_local_shards_(shards)
  yield out.cpu().sum().item()
  yield specs_of(out)


def _dynamo(mesh: xs.Mesh) -> Iterator[Any]:
  w = put((8, 8), (None, 'y'), mesh)
  b = put((8, 8), ('x', None), mesh)
  f = torch.compile(
      lambda x, b: ((x @ w).relu() + b, x.sum()), backend='openxla')
  made = []

  def step(x):
    made.append(f(x, b)[0])
    sync()

  for x, steps in (put((8, 8), ('x', None), mesh), 4), (None, 3):
    x = made[-1] if x is None else x
    for _ in range(steps):
      yield _counted(lambda: step(x))
    yield specs_of(made[-1])
  yield made[-1].cpu().sum().item()


def _dtensor(mesh: xs.Mesh) -> Iterator[Any]:
  del mesh
  line = init_device_mesh('xla', mesh_shape=(8,))
  grid = DeviceMesh('xla', torch.arange(8).reshape(2, 4))
  for on, placements in [(line, [Shard(0)]), (line, [Replicate()]),
                         (grid, [Shard(0), Shard(1)]),
                         (grid, [Shard(1), Replicate()]),
                         (grid, [Replicate(), Shard(0)])]:
    t = distribute_tensor(torch.randn(16, 8, device='xla'), on, placements)
    yield type(t).__name__, t.sharding_spec, str(t.sharding_type)
    out = t + 1
    sync()
    yield specs_of(getattr(out, 'global_tensor', out))
    for attribute in ('_spec', 'placements', 'device_mesh'):
      yield attribute, _outcome(lambda: getattr(t, attribute))
    yield _outcome(
        lambda: t.redistribute(on, [Replicate()] * on.ndim).sharding_spec)
  model = distribute_module(
      torch.nn.Linear(8, 8).to('xla'), line, lambda name, m, on:
      [distribute_tensor(p, on, [Shard(0)]) for p in m.parameters()])
  out = model(torch.ones(8, 8).to('xla'))
  sync()
  yield specs_of(model.weight, out)


def _manual(mesh: xs.Mesh) -> Iterator[Any]:
  fed = put((8, 8), ('x', 'y'), mesh)
  shard = xs.enable_manual_sharding(fed, ('x', 'y'), mesh=mesh).global_tensor
  whole = xs.disable_manual_sharding(shard + 1, ('x', 'y'), (8, 8), mesh=mesh)
  out = whole.global_tensor * 2
  sync()
  yield specs_of(fed, out)
  yield out.cpu().sum().item()


def _programs_of_torch_xla(mesh: xs.Mesh) -> Iterator[Any]:
  x = put((8, 8), ('x', 'y'), mesh)
  y, z = x + 1, put((8, 8), ('y', None), mesh) @ x
  sync()
  read = []
  yield _counted(lambda: read.extend([y.cpu().tolist(), z.cpu().tolist()]))
  yield _counted(lambda: read.append(y.cpu().sum().item()))
  yield read
  xs.mark_sharding(y, mesh, ('x', 'y'))
  annotated = xs.annotate_custom_sharding(y, mesh, (None, 'x')).global_tensor
  total = annotated.sum(1)
  yield _counted(sync)
  yield specs_of(annotated, total)
  yield total.cpu().tolist()


# By name: each is called with the mesh of 2 x 4 devices, and yields what is to
# be the same in every process.
SECTIONS: dict[str, Callable[[xs.Mesh], Iterator[Any]]] = {
    'propagated': _propagated,
    'marked': _marked,
    'permuted': _permuted,
    'training': _training,
    'marked again': _marked_again,
    'resharded': _resharded,
    'shards': _shards,
    'dynamo': _dynamo,
    'dtensor': _dtensor,
    'manual': _manual,
    'programs of torch_xla': _programs_of_torch_xla,
}
