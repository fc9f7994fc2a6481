"""The kernels that use manual sharding, as the real TPU compiler takes them.

They are traced as on TPU; XLA:CPU then has no kernels, so what torch_xla sends
is lowered here and handed to libtpu.
"""

from collections.abc import Callable, Iterator
import re

import environments
from manual_programs import mesh_of, sharded
import pytest
import torch
import torch_xla
import torch_xla.runtime as xr
from torch_xla.shardy.hlo import messages, protos
from torch_xla.shardy.rewrite import extract, to_sdy

jax = pytest.importorskip('jax', reason='needs jax: it traces the kernels')
pytest.importorskip('libtpu', reason='needs libtpu, the TPU compiler')
topology = pytest.importorskip('benchmarks.topology')
# In a process of its own each: what a failed sync leaves has no data.
pytestmark = [pytest.mark.slow, pytest.mark.environment()]

ENVIRONMENT = {**environments.SHARDY, **environments.LIBTPU}
_TOPOLOGY = 'v5e:2x4'
_KERNEL = 'custom_call_target="tpu_custom_call"'


class _JitForTpu:
  """`jax.jit` that lowers for TPUs, with none there."""

  def __init__(self, *arguments, **keywords):
    self._jitted = _jit(*arguments, **keywords)

  def lower(self, *arguments, **keywords):
    return self._jitted.trace(*arguments,
                              **keywords).lower(lowering_platforms=('tpu',))


_jit = jax.jit


@pytest.fixture(autouse=True)
def jit_fixture(monkeypatch) -> Iterator[None]:
  xr.use_spmd()
  # They jit at import.
  from jax.experimental.pallas.ops.tpu import flash_attention
  from jax.experimental.pallas.ops.tpu import paged_attention
  del flash_attention, paged_attention
  monkeypatch.setattr(jax, 'jit', _JitForTpu)
  yield


def _compiled(compute: Callable[[], torch.Tensor]) -> tuple[str, str]:
  """The program of a step as handed over, and as libtpu makes it."""
  from jaxlib import _hlo
  torch_xla.sync(wait=True)
  with torch_xla.shardy.record() as programs:
    result = compute()
    with pytest.raises(ValueError, match='custom call'):
      torch_xla.sync(wait=True)
  del result
  module = messages.parse(protos.HloModuleProto, programs[-1].sent)
  to_sdy.lower_shardings(module, extract.extract_annotations(module), 8)
  program = module.SerializeToString()
  text = _hlo.HloModule.from_serialized_hlo_module_proto(program).to_string()
  return text, topology.compile_for(_TOPOLOGY, program, shardy=True).to_string()


@pytest.mark.nightly
@pytest.mark.parametrize(
    'first', ['x', pytest.param('w', marks=pytest.mark.nightly)])
def test_flash_attention(first):
  """Forward and backward; what is decided outside flips with priorities.

  The activations ask for their batch along y and the weights for their heads
  along it: one of them splits the projections.
  """
  from torch_xla.experimental.custom_kernel import flash_attention
  mesh = mesh_of()
  x = sharded(
      torch.randn(4, 256, 128).bfloat16(), mesh, ('y', None, None),
      (int(first != 'x'), None, None))
  weights = [
      sharded(
          torch.randn(128, 4, 128).bfloat16(), mesh, (None, 'y', None),
          (None, int(first != 'w'), None)).requires_grad_() for _ in range(3)
  ]

  def step():
    q, k, v = (torch.einsum('bse,ehd->bhsd', x, w).sin() for w in weights)
    o = flash_attention(
        q, k, v, causal=True, partition_spec=('x', None, None, None), mesh=mesh)
    o.sum().backward()
    return o

  text, compiled = _compiled(step)
  assert text.count('xla.sdy.GlobalToLocalShape') == 2
  # Forward, and backward by the queries and by keys and values.
  assert compiled.count(_KERNEL) == 3
  # On one device, of 4 x 4 heads: all of one example's, or one of two examples'.
  assert {
      tuple(sorted(int(size)
                   for size in dims.split(',')
                   if size != '1'))
      for dims in re.findall(r' = \w+\[([\d,]+)\]\S* sine\(', compiled)
  } == {(4, 128, 256) if first == 'x' else (2, 128, 256)}


def test_paged_attention():
  """Queries and pages split by heads; lengths and places on each device."""
  from torch_xla.experimental import custom_kernel
  mesh = mesh_of()
  q = sharded(torch.randn(2, 32, 128), mesh, (None, None, None))
  w = sharded(torch.randn(128, 128), mesh, ('y', None), priority=(0, None))
  pages = [
      sharded(torch.randn(4, 16, 16, 128), mesh, ('y', None, None, None))
      for _ in range(2)
  ]
  lengths = torch.tensor([40, 100], dtype=torch.int32).to('xla')
  places = torch.arange(16, dtype=torch.int32).reshape(2, 8).to('xla')
  attention = custom_kernel._shard_map(
      lambda *arguments: custom_kernel.paged_attention(
          *arguments, pages_per_compute_block=4),
      mesh, [(None, 'y', None), *[('y', None, None, None)] * 2, (None,),
             (None, None)], [(None, 'y', None)])
  text, compiled = _compiled(lambda: attention(
      (q @ w).tanh(), *pages, lengths, places))
  assert text.count('xla.sdy.GlobalToLocalShape') == 1
  assert compiled.count(_KERNEL) == 1
