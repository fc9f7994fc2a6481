"""An explicit sharding policy: every parameter and buffer of a model is said.

>>> from torch_xla.distributed.spmd.policy import (Boundary, REPLICATED, Rule,
...                                                ShardingPolicy)
>>> policy = ShardingPolicy(
...     rules=(Rule('**.{up,qkv}.weight', ('model', None), priority=(0, None)),
...            Rule('**.{down,out}.weight', (None, 'model'))),
...     default=REPLICATED,
...     boundaries=(Boundary('blocks.*', ('data', None, None)),))
>>> applied = policy.apply(model, mesh)  # The model is on 'xla' by now.

A tensor that nobody marks is left to inference: the compiler may shard a bias
over eight devices and gather it again at every step. So a policy marks every
one, those that each device holds whole too.

**Exactly one rule claims each tensor.** Where the first or the last of several
matching rules wins, a rule that is written later can take a weight from another
one unnoticed. Here that is an error, as is a tensor without a rule and a rule
without a tensor, and all of them are listed at once. What no rule is to name
is replicated by saying so: `default=REPLICATED`. The order of the rules is kept
and decides nothing.

A weight with several names (tied) is one tensor: rules on different names of it
have to say the same. Tie weights after the model was moved to 'xla': moving it
makes a copy for each name.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Optional, Union

import torch
import torch_xla
from torch_xla.shardy.sharding.hlo_sharding import ShardingType

from . import captured, toml
from .. import xla_sharding
from .applied import (annotation_for, Applied, applied_to, BoundaryError,
                      BoundaryHook, forget, register)
from .claims import (Claim, claim_modules, claim_tensors, PolicyMismatchError,
                     Problem, ProblemKind)
from .held import modules_of, owned, tie, TiedWeightsWarning, warn_untied
from .patterns import PatternError, PolicyError, RuleError
from .rules import Boundary, REPLICATED, Replicated, Rule
from .toml import PolicyTextError

__all__ = [
    'Applied', 'Boundary', 'BoundaryError', 'PatternError', 'PolicyError',
    'PolicyMismatchError', 'PolicyTextError', 'Problem', 'ProblemKind',
    'REPLICATED', 'Rule', 'RuleError', 'ShardingPolicy', 'TiedWeightsWarning',
    'applied_to', 'tie'
]


@dataclasses.dataclass(frozen=True)
class ShardingPolicy:
  """How all of a model's tensors are sharded, on any mesh with these axes.

  Attributes:
    rules: each parameter and buffer is claimed by exactly one.
    default: REPLICATED, for tensors that no rule claims; None makes them an
      error.
    boundaries: activations that are marked as they leave a module.
  """
  rules: tuple[Rule, ...] = ()
  default: Optional[Replicated] = None
  boundaries: tuple[Boundary, ...] = ()

  def __post_init__(self):
    object.__setattr__(self, 'rules', tuple(self.rules))
    object.__setattr__(self, 'boundaries', tuple(self.boundaries))
    if self.default not in (None, REPLICATED):
      raise RuleError(
          f'default={self.default!r} is neither REPLICATED nor None')

  @classmethod
  def capture(cls,
              model: torch.nn.Module,
              mesh: Optional[xla_sharding.Mesh] = None) -> ShardingPolicy:
    """The policy that a model has now, whoever marked it: FSDPv2, a script.

    Applied to a model as that was before, it gives the same placements and
    priorities. What nobody split is replicated by default; marks that a script
    puts on activations are not in it.

    Args:
      model: on 'xla', wrapped or not.
      mesh: to say it over; None: the one that its tensors are marked over.

    Raises:
      PolicyError: a tensor is split as no partition spec over the mesh says;
        or nothing is known of a mesh, as with Shardy off.
    """
    tensors = list(owned(model))
    over = captured.mesh_of(tensors) if mesh is None else mesh
    axes(over)
    return cls(captured.rules_of(tensors, over), REPLICATED)

  @classmethod
  def from_toml(cls, text: str) -> ShardingPolicy:
    """The policy that a TOML text says; `policy.toml` describes the format.

    Raises:
      PolicyTextError: it is no TOML, or says something else than a policy.
      PolicyError: Python 3.10 without the package tomli.
    """
    rules, boundaries, default = toml.parse(text)
    return cls(rules, default, boundaries)

  @classmethod
  def load(cls, path: Union[str, os.PathLike]) -> ShardingPolicy:
    """Reads a policy from a TOML file, as `from_toml` does from text.

    Raises:
      OSError: the file cannot be read.
      PolicyError: as for `from_toml`.
    """
    with open(path, encoding='utf-8') as f:
      text = f.read()
    try:
      return cls.from_toml(text)
    except PolicyTextError as e:
      raise PolicyTextError(f'{os.fspath(path)}: {e}') from e

  def to_toml(self) -> str:
    """The policy as TOML: `from_toml` gives an equal one.

    Raises:
      PolicyTextError: a mesh axis named '-', which says None there.
    """
    return toml.dump(self.rules, self.boundaries, self.default)

  def claims(
      self, model: torch.nn.Module,
      mesh: xla_sharding.Mesh) -> tuple[dict[str, Claim], tuple[Problem, ...]]:
    """The claims of the policy by tensor name, and where it does not fit.
    """
    return claim_tensors(self.rules, self.default,
                         ((names, tuple(t.shape)) for names, t in owned(model)),
                         axes(mesh))

  def apply(self, model: torch.nn.Module, mesh: xla_sharding.Mesh) -> Applied:
    """Marks every parameter and buffer, and the activations at boundaries.

    Work that is pending on one of them is run first: it needs data to be
    stored. Records of programs show their names. A model that a policy was
    applied to before gets this one instead.

    Args:
      model: on the device 'xla'.
      mesh: with axis names.

    Raises:
      PolicyMismatchError: the policy does not fit; lists every offender, and
        nothing was marked.
      PolicyError: the mesh has no axis names.
    """
    tensors = [(names[0], t) for names, t in owned(model)]
    claims, problems = self.claims(model, mesh)
    modules, boundary_problems = claim_modules(self.boundaries,
                                               list(modules_of(model)),
                                               axes(mesh))
    problems = [
        *problems, *boundary_problems,
        *(Problem(ProblemKind.NOT_ON_XLA, name,
                  f"is on {t.device}: move the model first, model.to('xla')")
          for name, t in tensors
          if t.device.type != 'xla')
    ]
    if problems:
      raise PolicyMismatchError(problems)
    annotations = {
        name: annotation_for(mesh, claims[name]) for name, _ in tensors
    }
    # What is replicated may be so because nobody said anything.
    problems = [
        Problem(
            ProblemKind.ALREADY_SHARDED, name,
            f'is sharded {placed}, and the policy says '
            f'{annotations[name].sharding}: call xs.clear_sharding on it first')
        for name, placed in ((n, captured.placement_of(t)) for n, t in tensors)
        if placed is not None and placed.type != ShardingType.REPLICATED and
        placed != annotations[name].sharding
    ]
    if problems:
      raise PolicyMismatchError(problems)
    forget(model)
    _run_pending([t for _, t in tensors])
    applied = Applied(self, mesh, dict(tensors))
    for name, t in tensors:
      claim = claims[name]
      if captured.placement_of(t) not in (None, annotations[name].sharding):
        xla_sharding.clear_sharding(t)
      xla_sharding.mark_sharding(
          t,
          mesh,
          claim.spec,
          priority=claim.priority,
          propagate=claim.propagate)
      applied.annotations[t] = annotations[name]
    torch_xla.shardy.name_tensors({
        applied.record_names[name]: t for name, t in tensors
    })
    by_name = modules_of(model)
    for name, boundary in modules:
      applied.hook(by_name[name], BoundaryHook(name, boundary, mesh))
    register(model, applied)
    warn_untied(model)
    return applied


def axes(mesh: xla_sharding.Mesh) -> dict[str, int]:
  """The mesh's axes and their sizes.

  Raises:
    PolicyError: the axes have no names.
  """
  if not mesh.axis_names:
    raise PolicyError(
        'the mesh has no axis names, and a policy names its axes: make it '
        "xs.Mesh(device_ids, mesh_shape, ('data', 'model'))")
  return dict(zip(map(str, mesh.axis_names), map(int, mesh.mesh_shape)))


def _run_pending(tensors: list[torch.Tensor]) -> None:
  plain = [xla_sharding.unwrap_sharded_tensor(t) for t in tensors]
  if plain and any(torch_xla._XLAC._check_tensor_need_materialization(plain)):
    # Data that is still being computed cannot be sharded.
    torch_xla.sync(wait=True)
