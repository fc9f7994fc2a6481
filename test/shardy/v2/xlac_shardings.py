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


# By name: each is called with the mesh of 2 x 4 devices, and yields what is to
# be the same in every process.
SECTIONS: dict[str, Callable[[xs.Mesh], Iterator[Any]]] = {
    'propagated': _propagated,
    'marked again': _marked_again,
    'resharded': _resharded,
    'shards': _shards,
    'dtensor': _dtensor,
}
