"""Programs with manual regions, to be run by Shardy and by GSPMD alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import dataclasses
from typing import Any

import environments
import numpy as np
import torch
import torch_xla
from torch_xla.distributed import spmd as xs
from torch_xla.experimental.scan import scan
import torch_xla.runtime as xr

CPU = environments.DEVICES
SHARDY = {**CPU, 'XLA_USE_SHARDY': '1'}
GSPMD = {**CPU, 'XLA_SHARDING_V2': '1'}
STABLEHLO = {**SHARDY, 'XLA_STABLEHLO_COMPILE': '1'}

Tensors = tuple[torch.Tensor, ...]


@dataclasses.dataclass(frozen=True)
class Ran:
  """What became of a program.

  Attributes:
    results: as they are read.
    programs: partitioner, note and error of each program of the block.
    texts: of the programs that the backend was handed.
  """
  results: Tensors
  programs: tuple[tuple[str, str, str], ...]
  texts: tuple[bytes, ...]


def mesh_of(shape: Sequence[int] = (2, 4),
            names: Sequence[str] = ('x', 'y'),
            ids: Any = range(8)) -> xs.Mesh:
  return xs.Mesh(np.array(list(ids)), tuple(shape), tuple(names))


def sharded(t: torch.Tensor,
            mesh: xs.Mesh,
            spec: Any,
            priority: Any = None) -> torch.Tensor:
  t = t.to('xla')
  xs.mark_sharding(t, mesh, spec, priority=priority)
  return t


def begin(t: torch.Tensor, mesh: xs.Mesh, spec: Any) -> torch.Tensor:
  return xs.enable_manual_sharding(t, spec, mesh=mesh).global_tensor


def end(t: torch.Tensor, mesh: xs.Mesh, spec: Any, shape: Any) -> torch.Tensor:
  return xs.disable_manual_sharding(
      t, spec, torch.Size(shape), mesh=mesh).global_tensor


def random(*shape: int) -> torch.Tensor:
  return torch.randn(shape)


def both_axes() -> Tensors:
  mesh = mesh_of()
  x = sharded(random(16, 8), mesh, ('x', None), (0, None))
  results = []
  for spec in ('x', 'y'), (('x', 'y'), None), (None, ('y', 'x')), (None, None):
    local = begin(x.tanh(), mesh, spec)
    results.append(end(local.cumsum(0), mesh, spec, x.shape))
  return tuple(results)


def matmul() -> Tensors:
  """Rows by columns, and the whole of a weight on each device."""
  mesh = mesh_of()
  x = sharded(random(8, 16), mesh, ('x', None), (0, None))
  w = sharded(random(16, 32), mesh, (None, 'y'), (None, 1))
  v = sharded(random(32, 4), mesh, ('x', None), (0, None))
  product = begin(x.sin(), mesh, ('x', None)) @ begin(w.cos(), mesh,
                                                      (None, 'y'))
  whole = end(product, mesh, ('x', 'y'), (8, 32))
  return whole @ v, whole


def permuted_mesh() -> Tensors:
  mesh = mesh_of(ids=(3, 0, 6, 1, 7, 4, 2, 5))
  x = sharded(random(8, 8), mesh, ('x', 'y'), (0, 1))
  local = begin(x.exp(), mesh, ('y', 'x'))
  return (end(local.cumsum(1), mesh, ('y', 'x'), x.shape),)


def two_meshes() -> Tensors:
  """The second cuts an axis of the first."""
  mesh, other = mesh_of(), mesh_of((4, 2), ('p', 'q'))
  x = sharded(random(8, 8), mesh, ('x', 'y'), (0, 1))
  y = end(begin(x + 1, mesh, ('x', 'y')).cumsum(0), mesh, ('x', 'y'), x.shape)
  local = begin(y * 2, other, ('p', 'q'))
  return (end(local.cumsum(1), other, ('p', 'q'), x.shape),)


def straight_on() -> Tensors:
  """One region begins where another ends."""
  mesh = mesh_of()
  x = sharded(random(8, 8), mesh, ('x', None), (0, None))
  y = end(
      begin(x.sin(), mesh, ('x', None)).cumsum(0), mesh, ('x', None), (8, 8))
  return (end(begin(y, mesh, (None, 'y')).cumsum(1), mesh, (None, 'y'),
              (8, 8)),)


def shared_values() -> Tensors:
  """Used within and without, twice within, and by two regions."""
  mesh = mesh_of()
  x = sharded(random(8, 8), mesh, ('x', None), (0, None))
  y = x.sin()
  spec = ('x', 'y')
  local = begin(y, mesh, spec)
  first = end(local.cumsum(0) * local, mesh, spec, x.shape)
  second = end(begin(y, mesh, spec) + 1, mesh, spec, x.shape)
  return first + y, second * y


def several_results() -> Tensors:
  mesh = mesh_of()
  x = sharded(random(8, 8), mesh, ('x', None), (0, None))
  spec = ('x', 'y')
  local = begin(x.sin(), mesh, spec)
  values, places = local.max(1, keepdim=True)
  return (end(local, mesh, spec, x.shape), end(values, mesh, spec, (8, 4)),
          end(places, mesh, spec,
              (8, 4)), end(local, mesh, (None, ('x', 'y')), (4, 16)))


def values_from_outside() -> Tensors:
  """A number, a constant, an iota, and a tensor that is nowhere split."""
  mesh = mesh_of()
  x = sharded(random(8, 8), mesh, ('x', None), (0, None))
  whole = sharded(random(4, 2), mesh, (None, None))
  scale = torch.tensor(3.5).to('xla')
  spec = ('x', 'y')
  local = begin(x.sin(), mesh, spec)
  local = local * scale + whole.cos() + torch.arange(2, device='xla')
  local = local + torch.ones(4, 2, device='xla')
  return end(local, mesh, spec, x.shape), whole + 1


def split_outside() -> Tensors:
  """What a region uses without its having begun there enters whole."""
  mesh = mesh_of()
  x = sharded(random(8, 8), mesh, ('x', None), (0, None))
  spec = ('x', 'y')
  w = (x @ x).sum(0)[:2]
  return (end(begin(x.sin(), mesh, spec) + w, mesh, spec, x.shape),)


def ends_only() -> Tensors:
  """A value that each device has, put together."""
  mesh = mesh_of()
  x = sharded(random(8, 8), mesh, ('x', None), (0, None))
  part = torch.arange(8., device='xla').reshape(4, 2)
  return (x + end(part * 2, mesh, ('x', 'y'), (8, 8)),)


def all_reduce() -> Tensors:
  import torch_xla.core.xla_model as xm
  mesh = mesh_of()
  x = sharded(random(8, 8), mesh, ('x', None), (0, None))
  spec = ('x', 'y')
  local = begin(x.sin(), mesh, spec)
  rows = torch_xla._XLAC._xla_spmd_all_reduce(xm.REDUCE_SUM, local, 1.0,
                                              [[0, 1, 2, 3], [4, 5, 6, 7]])
  return (end(rows, mesh, spec, x.shape),)


class _Cube(torch.autograd.Function):
  """A kernel as they are written: both ways begin and end a region."""

  @staticmethod
  def forward(ctx, x, mesh):
    ctx.mesh = mesh
    local = begin(x, mesh, ('x', 'y'))
    ctx.save_for_backward(x, local)  # The second one is manual.
    return end(local * local * local, mesh, ('x', 'y'), x.shape)

  @staticmethod
  def backward(ctx, gradient):
    x, local = ctx.saved_tensors
    local = 3 * local * local * begin(gradient, ctx.mesh, ('x', 'y'))
    return end(local, ctx.mesh, ('x', 'y'), x.shape), None


def backward() -> Tensors:
  """The backward region needs the forward one's result, and its values."""
  mesh = mesh_of()
  x = sharded(random(8, 8), mesh, ('x', None), (0, None)).requires_grad_()
  w = sharded(random(8, 8), mesh, (None, 'y'), (None, 1)).requires_grad_()
  loss = _Cube.apply((x @ w).tanh(), mesh).sin().square().sum()
  loss.backward()
  return loss.detach(), x.grad, w.grad


def needs_its_own_result() -> Tensors:
  """A manual value is used again with what became of it; also a scalar."""
  mesh = mesh_of()
  x = sharded(random(8, 8), mesh, ('x', None), (0, None))
  spec = ('x', 'y')
  local = begin(x.sin(), mesh, spec)
  total = local.sum()
  first = end(local * 2, mesh, spec, x.shape)
  again = begin(first @ first, mesh, spec)
  return first, end(again * local + total, mesh, spec, x.shape)


@torch.library.custom_op('shardy_test::local_cumsum', mutates_args=())
def local_cumsum(t: torch.Tensor, from_right: bool) -> torch.Tensor:
  """A region that tracers do not look into, as kernels are."""
  mesh = mesh_of()
  local = begin(t.clone(), mesh, ('x', 'y'))
  if from_right:
    local = local + local.sum(1, keepdim=True) - local.cumsum(1)
  else:
    local = local.cumsum(1)
  return end(local, mesh, ('x', 'y'), t.shape)


@local_cumsum.register_fake
def _(t: torch.Tensor, from_right: bool) -> torch.Tensor:
  return torch.empty_like(t)


def _save(ctx: Any, inputs: Any, output: Any) -> None:
  ctx.from_right = inputs[1]


def _gradients(ctx: Any, gradient: torch.Tensor) -> Any:
  return local_cumsum(gradient, not ctx.from_right), None


local_cumsum.register_autograd(_gradients, setup_context=_save)


def in_loop() -> Tensors:
  mesh = mesh_of()
  x = sharded(random(8, 8), mesh, ('x', None), (0, None))
  layers = sharded(random(3, 8, 8), mesh, (None, None, 'y'), (None, None, 1))

  def layer(carry, weight):
    carry = local_cumsum(torch.tanh(carry @ weight), False)
    return carry, carry.cos()

  return scan(layer, x, layers)


def loop_within() -> Tensors:
  mesh = mesh_of()
  x = sharded(random(8, 8), mesh, ('x', None), (0, None))
  layers = sharded(random(3, 2, 2), mesh, (None, None, None))
  spec = ('x', 'y')

  def layer(carry, weight):
    carry = torch.tanh(carry @ weight)
    return carry, carry.cos()

  carry, _ = scan(layer, begin(x.sin(), mesh, spec), layers)
  return (end(carry, mesh, spec, x.shape),)


def uneven() -> Tensors:
  """The padding counts as zeros; what was padded is cut off."""
  mesh = mesh_of()
  x = sharded(random(7, 7), mesh, ('x', None), (0, None))
  spec = ('x', 'y')
  y = x + 5
  local = begin(y, mesh, spec)
  assert local.shape == (4, 2)
  return (end(local * 2 + 1, mesh, spec,
              (7, 7)), end(local.sum(0, keepdim=True), mesh, spec, (2, 7)),
          end(local.sum(1, keepdim=True) + 1, mesh, spec, (7, 4)))


def uneven_types() -> Tensors:
  mesh = mesh_of()
  results = []
  for dtype in (torch.bfloat16, torch.float64, torch.int32, torch.int64,
                torch.bool, torch.uint8):
    x = sharded(random(5, 3, 3).abs().mul(9).to(dtype), mesh, (None, 'x', 'y'))
    local = begin(x.flip(0), mesh, ('x', 'y', None))
    local = local.to(torch.float32).cumsum(0).to(dtype)
    results.append(end(local, mesh, ('x', 'y', None), (5, 3, 3)))
  return tuple(results)


def uneven_parameter() -> Tensors:
  """The region begins at a parameter, and its end is a result."""
  mesh = mesh_of()
  x = sharded(random(7, 5), mesh, ('x', 'y'), (0, 1))
  local = begin(x, mesh, ('x', 'y'))
  return end(local.sin(), mesh, ('x', 'y'), (7, 5)), x + 1


def manual_result() -> Tensors:
  """What a program leaves manual, also a number, another one goes on with."""
  mesh = mesh_of(ids=(3, 0, 6, 1, 7, 4, 2, 5))
  x = sharded(random(8, 8), mesh, ('x', None), (0, None))
  spec = ('x', 'y')
  local = begin(x.sin(), mesh, spec)
  total = local.sum()
  torch_xla.sync(wait=True)
  for t in local, total:
    assert torch_xla._XLAC._get_xla_sharding_spec(t) == '{manual}'
  assert local.shape == (4, 2) and total.shape == ()
  torch_xla.sync(wait=True)
  local = local * total
  torch_xla.sync(wait=True)
  return end(local + total, mesh, spec, x.shape), x + 1, x


def manual_in_place() -> Tensors:
  """A tensor that stays manual, donated to what it becomes."""
  mesh = mesh_of()
  x = sharded(random(8, 8), mesh, ('x', None), (0, None))
  spec = ('x', 'y')
  local = begin(x.sin(), mesh, spec) * 1
  for _ in range(3):
    torch_xla.sync(wait=True)
    local.add_(1).mul_(2)
  return end(local * 1, mesh, spec, x.shape), x


PROGRAMS: dict[str, Callable[[], Tensors]] = {
    function.__name__: function
    for function in (both_axes, matmul, permuted_mesh, two_meshes, straight_on,
                     shared_values, several_results, values_from_outside,
                     split_outside, ends_only, all_reduce, backward,
                     needs_its_own_result, in_loop, loop_within, uneven,
                     uneven_types, uneven_parameter, manual_result,
                     manual_in_place)
}


def run(names: Sequence[str]) -> dict[str, Ran]:
  """Runs programs one after the other, in a process of their own."""
  xr.use_spmd()
  ran = {}
  for name in names:
    torch.manual_seed(7)
    torch_xla.sync(wait=True)
    with torch_xla.shardy.record() as programs:
      results = PROGRAMS[name]()
      torch_xla.sync(wait=True)
    ran[name] = Ran(
        tuple(t.cpu() for t in results),
        tuple((p.partitioner.value, p.note, p.error or '') for p in programs),
        tuple(p.handed_on for p in programs))
  return ran
