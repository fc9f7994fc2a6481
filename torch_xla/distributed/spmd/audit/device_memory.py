"""The memory of a device beside a model: optimizers, gradients, the rest."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator
import contextlib
import dataclasses
import gc
import math

import torch
import torch_xla
from torch_xla.distributed.spmd import policy as spmd_policy
from torch_xla.shardy import tensor_names

from .. import xla_sharding
from .placement import element_type, local_shape, PENDING, stored
from .report import Beside, GRADIENT, Held, OTHER


class Occupancy:
  """The tensors on the device, at one time, beside a model's own."""

  def __init__(self, model: torch.nn.Module):
    """Goes through all objects that the garbage collector knows.

    It collects first: what is found must not depend on when that last ran.
    """
    gc.collect()
    own = [t for _, t in spmd_policy.owned(model)]
    weights = {id(t) for t in own}
    self._beside: dict[int, list[tuple[str, torch.Tensor]]] = {
        id(t): [(GRADIENT, t.grad)] for t in own if t.grad is not None
    }
    _, optimizers = tensor_names.living_owners()
    for optimizer in optimizers:
      for weight, state in list(vars(optimizer).get('state', {}).items()):
        if id(weight) in weights and isinstance(state, dict):
          self._beside.setdefault(id(weight), []).extend(
              (key, t)
              for key, t in state.items()
              if isinstance(t, torch.Tensor) and t.device.type == 'xla')
    seen = _ids(own) | _ids(
        t for states in self._beside.values() for _, t in states)
    alike = collections.Counter(_others(seen))
    self.others = tuple(
        dataclasses.replace(row, count=count) for row, count in sorted(
            alike.items(), key=lambda item:
            (-item[0].local_nbytes, repr(item))))

  def rows_beside(self, weight: torch.Tensor) -> tuple[Beside, ...]:
    """A weight's gradient and its state in optimizers."""
    return tuple(_row(role, t) for role, t in self._beside.get(id(weight), ()))


def held(tensors: Iterable[tuple[str, int, int]]) -> tuple[Held, ...]:
  """Sums by what it is.

  Args:
    tensors: of each what it is, and its bytes in all and on a device.
  """
  sizes_by_sort: dict[str, list[tuple[int, int]]] = {}
  for sort, nbytes, local in tensors:
    sizes_by_sort.setdefault(sort, []).append((nbytes, local))
  return tuple(
      Held(sort, len(sizes), sum(n
                                 for n, _ in sizes), sum(n
                                                         for _, n in sizes))
      for sort, sizes in sizes_by_sort.items())


def _row(role: str, t: torch.Tensor) -> Beside:
  placed = stored(t)
  shape = tuple(t.shape)
  size = t.element_size()
  return Beside(role, shape, element_type(t),
                math.prod(shape) * size,
                math.prod(local_shape(placed.sharding, shape)) * size, placed)


def _others(own_ids: set[int]) -> Iterator[Beside]:
  for t in gc.get_objects():
    # By its class, and not what an object says that its class is.
    if issubclass(type(t), torch.Tensor) and t.device.type == 'xla':
      own = _ids([t]) - own_ids
      if own:
        own_ids |= own
        row = _row(OTHER, t)
        # Of what is pending no data is there yet.
        if row.nbytes and row.stored.unknown != PENDING:
          yield row


def _ids(tensors: Iterable[torch.Tensor]) -> set[int]:
  """The ids of the tensors' data; a view of a whole tensor has the same."""
  ids = set()
  for t in tensors:
    # A fake one, as torch.compile leaves some, says it is on the device.
    with contextlib.suppress(RuntimeError):
      ids.add(
          torch_xla._XLAC._xla_get_tensor_id(
              xla_sharding.unwrap_sharded_tensor(t)))
  return ids
