"""What is read of programs that the real TPU compiler made."""

from __future__ import annotations

from collections.abc import Callable
import dataclasses
import functools
import re
from typing import Any

import environments
import numpy as np
import pytest
from torch_xla.shardy.aot.compiled import compiled_module, heavy_tensors
from torch_xla.shardy.aot.compiled.heavy_tensors import buffers_of
from torch_xla.shardy.aot.compiled.collectives import collective_uses
from torch_xla.shardy.aot.compiled.compiled_module import CompiledModule
from torch_xla.shardy.aot.compiled.cycles import cycles
from torch_xla.shardy.aot.compiled.mesh_groups import MeshValue
from torch_xla.shardy.aot.report import CollectiveUse

pytest.importorskip('libtpu', reason='needs libtpu, the TPU compiler')
jax = pytest.importorskip('jax')
pytestmark = pytest.mark.slow

ENVIRONMENT = environments.LIBTPU
_MESH = MeshValue((2, 4), ('data', 'model'), tuple(range(8)))
# libtpu adds a table of addresses to several results.
_TABLE = 512


@dataclasses.dataclass(frozen=True)
class Compiled:
  """A program: as it is read, as text, and what libtpu says that it needs."""
  module: CompiledModule
  text: str
  memory: Any


def _compile(function: Callable,
             *arguments: tuple,
             mesh: MeshValue = _MESH,
             name: str = 'v5e:2x4',
             **options) -> Compiled:
  """Compiles for a topology; arguments are (shape, axes[, dtype])."""
  from jax.experimental import topologies
  from jax.sharding import Mesh, NamedSharding, PartitionSpec
  slices = options.pop('slices', 1)
  topology = topologies.get_topology_desc(
      name, platform='tpu', **({} if slices == 1 else {
          'num_slices': slices
      }))
  devices = Mesh(
      np.array(topology.devices).reshape(mesh.shape), mesh.axis_names)
  if options.pop('manual', False):
    function = jax.shard_map(
        function,
        mesh=devices,
        in_specs=tuple(PartitionSpec(*a[1]) for a in arguments),
        out_specs=options.pop('results'),
        check_vma=False)
  given = [
      jax.ShapeDtypeStruct(
          shape,
          dtype[0] if dtype else 'bfloat16',
          sharding=NamedSharding(devices, PartitionSpec(*axes)))
      for shape, axes, *dtype in arguments
  ]
  executable = jax.jit(function,
                       **options).lower(*given).compile().runtime_executable()
  hlo, = executable.hlo_modules()
  return Compiled(
      compiled_module.read(hlo.as_serialized_hlo_module_proto(), 'hlo'),
      hlo.to_string(), executable.get_compiled_memory_stats())


@functools.lru_cache(maxsize=None)
def _scan() -> Compiled:
  """Twelve layers in a loop."""

  def layers(x, weights):
    return jax.lax.scan(lambda c, w: (jax.nn.gelu(c @ w), c.sum()), x, weights)

  return _compile(layers, ((512, 1024), ('data', None)),
                  ((12, 1024, 1024), (None, None, 'model')))


@functools.lru_cache(maxsize=None)
def _fsdp() -> Compiled:
  """Gradients of three layers whose weights are gathered meanwhile."""

  def loss(x, *weights):
    for weight in weights:
      x = jax.nn.gelu(x @ weight)
    return (x.astype('float32')**2).mean()

  return _compile(
      jax.grad(loss, argnums=(1, 2, 3)), ((512, 2048), ('data', None)),
      *[((2048, 2048), (('data', 'model'), None))] * 3)


@functools.lru_cache(maxsize=None)
def _padded() -> Compiled:
  """Shapes that no tile divides; the first is given away."""

  def odd(x, s, p):
    return (x * 2, s + 1, p, x[:, :50].astype('float32'), x.sum(),
            p.astype(bool))

  return _compile(
      odd, ((1000, 100), ()), ((), (), 'int32'), ((7, 3, 5), (), 'int8'),
      donate_argnums=(0,))


@functools.lru_cache(maxsize=None)
def _collectives() -> Compiled:
  from jax.sharding import PartitionSpec as P

  def each(x):
    ring = [(i, (i + 1) % 4) for i in range(4)]
    return (jax.lax.all_to_all(x, 'model', 0, 1,
                               tiled=True), jax.lax.ppermute(x, 'model', ring),
            jax.lax.psum(x * 2, ('data', 'model')),
            jax.lax.psum_scatter(x, 'data', tiled=True),
            jax.lax.all_gather(x, 'data', tiled=True))

  both = P('data', 'model')
  return _compile(
      each, ((4096, 2048), ('data', 'model')),
      manual=True,
      results=(both, both, P(), both, both))


@pytest.mark.parametrize('program', [_scan, _fsdp, _padded, _collectives])
def test_memory_is_what_libtpu_counts(program):
  compiled = program()
  module, memory = compiled.module, compiled.memory
  tensors = heavy_tensors.heavy_tensors(module, most=10**6)

  def nbytes(role: str) -> int:
    return sum(t.nbytes for t in tensors if t.role == role)

  assert nbytes('argument') == memory.argument_size_in_bytes
  new = memory.output_size_in_bytes - memory.alias_size_in_bytes
  assert nbytes('result') in (new, new - _TABLE)
  root = next(
      i for i in module.entry.instructions if i.id == module.entry.root_id)
  assert memory.output_size_in_bytes - sum(
      b.nbytes for b in buffers_of(root.shape)) in (0, _TABLE)


def test_the_trips_of_a_loop_are_found():
  module = _scan().module
  times = {module.computations[i].name: n for i, n in module.times.items() if n}
  assert sorted(times.values()) == [1, 12, 13]
  assert module.loops_counted_once == 0
  uses = collective_uses(module, [_MESH])
  assert CollectiveUse('all-gather', ('model',), '2 groups of 4', 12,
                       12 * 256 * 1024 * 2) in uses


def test_estimates_are_summed_as_they_stand_in_the_text():
  """The text alone tells the loop's: the computation with the counter."""
  compiled = _scan()
  module = compiled.module
  total = 0
  for computation, times in module.run():
    name = re.escape(computation.name)
    body = re.search(rf'^(?:ENTRY )?%{name} \(.*?^}}', compiled.text,
                     re.DOTALL | re.MULTILINE)[0]
    total += times * sum(
        map(int, re.findall(r'"estimated_cycles":"(\d+)"', body)))
  found = cycles(module)
  assert found.total == total > 0
  assert dict(found.left_out)['all-gather'] == 1


def test_a_gather_that_libtpu_cuts_into_steps_counts_once():
  compiled = _fsdp()
  gathers = [
      line for line in compiled.text.splitlines() if ' all-gather(' in line
  ]
  in_steps = [line for line in gathers if 'chain_id=' in line]
  starts = compiled.text.count('custom_call_target="AsyncCollectiveStart"')
  assert len(in_steps) > starts > 0
  uses = collective_uses(compiled.module, [_MESH])
  assert sum(u.count for u in uses if u.kind == 'all-gather') == (
      len(gathers) - len(in_steps) + starts)
  told = dict(cycles(compiled.module).left_out)
  assert told['all-gather'] == len(gathers) - len(in_steps) + starts
  # The weights, whole, once for each axis at the least.
  assert {u.axes for u in uses if u.kind == 'all-gather'} == {('data', 'model'),
                                                              ('data',)}


def test_each_kind_is_found_on_its_axes():
  shard = 2048 * 512 * 2
  assert set(collective_uses(_collectives().module, [_MESH])) == {
      CollectiveUse('all-gather', ('data',), '4 groups of 2', 1, 2 * shard),
      CollectiveUse('all-reduce', ('data', 'model'), '1 group of 8', 1, shard),
      CollectiveUse('all-to-all', ('model',), '2 groups of 4', 1, shard),
      CollectiveUse('collective-permute', ('model',), '8 of 8 devices send', 1,
                    shard),
      CollectiveUse('reduce-scatter', ('data',), '4 groups of 2', 1, shard),
  }


def test_what_goes_between_slices_is_found_on_its_axes():
  axes = ('far', 'near')
  from jax.sharding import PartitionSpec as P
  mesh = MeshValue((2, 2, 4), ('far', 'near', 'model'), tuple(range(16)))
  compiled = _compile(
      lambda x: jax.lax.psum(x, axes),
      ((4096, 2048), (('far', 'near'), 'model')),
      mesh=mesh,
      name='v5e:2x2',
      slices=4,
      manual=True,
      results=P())
  assert collective_uses(compiled.module, [mesh]) == (CollectiveUse(
      'all-reduce', axes, '4 groups of 4 between slices', 1, 1024 * 512 * 2),)
