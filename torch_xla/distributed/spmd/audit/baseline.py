"""The policy that a model is held to, and since when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
from typing import Optional

import numpy as np
import torch
import torch_xla
from torch_xla import runtime
from torch_xla.shardy import tensor_names
from torch_xla.shardy.annotate.annotation import Annotation
from torch_xla.shardy.mode import Mode

from .. import policy as spmd_policy, xla_sharding
from ..policy import applied as policy_applied, captured

# Models that were moved to a device, each once, with the names of each weight
# that had several before that.
Moved = Sequence[tuple[torch.nn.Module, Sequence[Sequence[str]]]]


@dataclasses.dataclass(frozen=True)
class Standard:
  """The policy of an audit, and what is known of how it came to the model.

  Attributes:
    origin: 'applied'; 'given' if the model was marked by others; 'captured' if
      it is what the model has now.
    record_names: the tensors' names in records of programs, by name.
    annotations: what `policy.apply` marked, by tensor object.
    hooks: those of boundaries.
    start: what was counted before the audit's time.
  """
  origin: str
  policy: spmd_policy.ShardingPolicy
  mesh: xla_sharding.Mesh
  record_names: Mapping[str, str]
  annotations: Mapping[torch.Tensor, Annotation]
  hooks: Sequence[policy_applied.BoundaryHook]
  start: policy_applied.Counts


def resolve_standard(model: torch.nn.Module,
                     policy: Optional[spmd_policy.ShardingPolicy]) -> Standard:
  """The standard that an audit holds a model to.

  Raises:
    PolicyError: no policy was applied to the model, and it is split as no
      policy says, or is to be held to one and is on no mesh.
  """
  applied = policy_applied.applied_to(model)
  if applied is not None:
    return Standard('applied', policy or applied.policy, applied.mesh,
                    applied.record_names, applied.annotations,
                    applied.boundaries, applied.start)
  owned = list(spmd_policy.owned(model))
  try:
    mesh = captured.mesh_of(owned)
  except spmd_policy.PolicyError:
    if policy or torch_xla.shardy.current_mode() is not Mode.SHARDY:
      raise
    ids = np.arange(runtime.global_runtime_device_count())
    mesh = xla_sharding.Mesh(ids, ids.shape, ('axis_0',))
  names = tensor_names.names_of([t for _, t in owned])
  return Standard(
      'captured' if policy is None else 'given', policy or
      spmd_policy.ShardingPolicy.capture(model, mesh), mesh, {
          own[0]: name for (own, _), name in zip(owned, names, strict=True)
      }, {}, (), policy_applied.Counts.none())


def models_in(moved: Iterable[torch.nn.Module]) -> dict[str, torch.nn.Module]:
  """The models that are on 'xla', by class; with a number where that is taken.

  Args:
    moved: models that are kept alive; others that live are found, too.
  """
  living, _ = tensor_names.living_owners()
  models: dict[str, torch.nn.Module] = {}
  tensor_ids: set[int] = set()
  for root in tensor_names.roots([*moved, *living]):
    own_ids = {
        id(t) for _, t in spmd_policy.owned(root) if t.device.type == 'xla'
    }
    # What torch.compile makes of a model holds what that holds.
    if own_ids - tensor_ids:
      title = type(root).__name__
      number = sum(name.split('_')[0] == title for name in models) + 1
      models[title if number == 1 else f'{title}_{number}'] = root
      tensor_ids |= own_ids
  return models


def as_one(models: Mapping[str, torch.nn.Module],
           tied: Moved) -> tuple[torch.nn.Module, tuple[Sequence[str], ...]]:
  """One module that has them all by these names, and names of tied weights.

  Args:
    tied: for each module names within it of what was one weight.
  """
  names_by_module = {id(module): names for module, names in tied}
  if len(models) == 1:
    (model,) = models.values()
    return model, tuple(names_by_module.get(id(model), ()))
  return torch.nn.ModuleDict(dict(models)), tuple(
      [f'{title}.{name}'
       for name in names]
      for title, model in models.items()
      for names in names_by_module.get(id(model), ()))
