"""Marked tensors, and what is seen of them without looking into the compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

import placements
import torch
import torch_xla
from torch_xla import _XLAC
import torch_xla.debug.metrics as met
import torch_xla.distributed.spmd as xs

Priority = Optional[tuple[Optional[int], ...]]

# A tensor and a mesh, a partition spec and a priority, to the marked tensor.
Form = Callable[[torch.Tensor, xs.Mesh, placements.Spec, Priority],
                torch.Tensor]


def _by_shardings_spec(t, mesh, spec, priority):
  xs.ShardingSpec(mesh, spec, priority=priority).apply(t)
  return t


def _by_operator(t, mesh, spec, priority):
  # It marks in place; what it gives back is the tensor under t's wrapper.
  torch.ops.xla.dynamo_mark_sharding(
      t, mesh.device_ids.tolist(), list(mesh.mesh_shape), str(mesh.axis_names),
      str(spec), None if priority is None else repr(priority))
  return t


def _in_place(mark: Callable) -> Form:

  def marked(t, mesh, spec, priority):
    mark(t, mesh, spec, priority=priority)
    return t

  return marked


def _with_gradients(t, mesh, spec, priority):
  return plain(
      xs.mark_sharding_with_gradients(t, mesh, spec, priority=priority))


# Whatever takes a partition spec takes a priority.
FORMS: dict[str, Form] = {
    'mark_sharding': _in_place(xs.mark_sharding),
    'annotate_custom_sharding': _in_place(xs.annotate_custom_sharding),
    'mark_sharding_with_gradients': _with_gradients,
    'ShardingSpec': _by_shardings_spec,
    'dynamo_mark_sharding': _by_operator,
}


def put(mesh: xs.Mesh,
        shape: tuple[int, ...],
        spec: placements.Spec,
        priority: Priority = None) -> torch.Tensor:
  """A marked tensor with data."""
  t = torch.randn(shape).to('xla')
  if priority is None:
    xs.mark_sharding(t, mesh, spec)
  else:
    xs.mark_sharding(t, mesh, spec, priority=priority)
  return t


def plain(t: Any) -> torch.Tensor:
  """The tensor under the wrapper that `mark_sharding` gives back, if one is."""
  return getattr(t, 'global_tensor', t)


def placed(t: torch.Tensor) -> placements.Placement:
  """How a tensor is placed, after a sync."""
  return placements.of_text(_XLAC._get_xla_sharding_spec(t), t.dim())


def sync() -> None:
  torch_xla.sync(wait=True)


def compiles() -> int:
  """Programs compiled so far."""
  return met.counter_value('UncachedCompile') or 0


def compiles_of(f: Callable[[], Any]) -> int:
  """Programs that a call and the sync behind it compile."""
  before = compiles()
  kept = f()
  sync()
  del kept
  return compiles() - before
