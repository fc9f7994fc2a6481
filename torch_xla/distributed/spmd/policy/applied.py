"""The traces of a policy that was applied to a model: marks, names, hooks."""

from __future__ import annotations

from collections.abc import Mapping
import dataclasses
import os
from typing import Any, NamedTuple, Optional, Union
import weakref

import torch
from torch.utils.weak import WeakTensorKeyDictionary
import torch_xla
import torch_xla.debug.metrics as met
from torch_xla.shardy.annotate.annotation import Annotation, user_mesh

from .. import xla_sharding
from .claims import Claim
from .patterns import PolicyError
from .rules import axes_of, Boundary

# Set by `torch-xla-shardy audit` for the script that it
# runs: models are kept until the script has ended, to be audited then.
KEEP_VARIABLE = 'TORCH_XLA_SHARDY_AUDIT'

# Tracing and compiling, as torch_xla counts them.
COUNTERS = ('MarkStep', 'DynamoExtractCompiledGraph', 'UncachedCompile',
            'CachedCompile')


class BoundaryError(PolicyError):
  """A module's result that its boundary cannot be put on."""


class Counts(NamedTuple):
  """The programs, compiles and traces of this process up to some time.

  Attributes:
    programs: how many records `torch_xla.shardy.programs()` has.
    compiles: how often a program was compiled.
    counters: the values of COUNTERS.
  """

  programs: int
  compiles: int
  counters: Mapping[str, int]

  @classmethod
  def none(cls) -> Counts:
    """The counts of a process that has compiled nothing."""
    return cls(0, 0, dict.fromkeys(COUNTERS, 0))

  @classmethod
  def now(cls) -> Counts:
    compiled = met.metric_data('CompileTime')
    return cls(
        len(torch_xla.shardy.programs()),
        int(compiled[0]) if compiled else 0,
        {name: int(met.counter_value(name) or 0) for name in COUNTERS})


class _Marked(torch.autograd.Function):
  """Marks a tensor and its gradient; the arguments are text.

  torch.compile traces hooks, and cannot trace how a mesh becomes text.
  """

  @staticmethod
  def forward(ctx: Any, t: torch.Tensor, mesh: str, spec: str,
              priority: Optional[str],
              propagate: Optional[str]) -> torch.Tensor:
    ctx.arguments = mesh, spec, priority, propagate
    return torch.ops.xla.aot_mark_sharding(t, *ctx.arguments)

  @staticmethod
  def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    return (torch.ops.xla.aot_mark_sharding(gradient, *ctx.arguments), None,
            None, None, None)


class BoundaryHook:
  """Marks a module's result, and its gradient.

  Attributes:
    module: the module's name.
    shapes: of the results that it marked, outside torch.compile, with the
      bytes of an element.
    compiled: whether torch.compile traced it; its shapes are not known then.
  """

  def __init__(self, module: str, boundary: Boundary, mesh: xla_sharding.Mesh):
    self.module = module
    self.boundary = boundary
    self.shapes: dict[tuple[int, ...], int] = {}
    self.compiled = False
    self._arguments = (str(mesh), str(boundary.spec),
                       *(None if word is None else str(word)
                         for word in (boundary.priority, boundary.propagate)))

  def __call__(self, module: torch.nn.Module, args: Any, output: Any) -> Any:
    place = self.boundary.output
    if place is None:
      return self._marked(output)
    if isinstance(place, str) and isinstance(output, Mapping) and (place
                                                                   in output):
      marked = {place: self._marked(output[place])}
      # Of transformers: a dictionary that has its entries as attributes, too.
      return (dataclasses.replace(output, **marked)
              if dataclasses.is_dataclass(output) else type(output)({
                  **output,
                  **marked
              }))
    if isinstance(place, str) or not isinstance(
        output, (tuple, list)) or not (-len(output) <= place < len(output)):
      raise BoundaryError(f'{self._where}: there is no result {place!r} in a '
                          f'{type(output).__name__}{_length(output)}')
    outputs = list(output)
    outputs[place] = self._marked(outputs[place])
    if isinstance(output, list):
      return outputs
    # A named tuple takes its fields one by one.
    return (type(output)(
        *outputs) if hasattr(output, '_fields') else tuple(outputs))

  def _marked(self, t: Any) -> torch.Tensor:
    if not isinstance(t, torch.Tensor):
      raise BoundaryError(f'{self._where}: the result is a '
                          f'{type(t).__name__}{_length(t)} and no tensor; name '
                          'one of a tuple or a dictionary with output=')
    if t.dim() != len(self.boundary.spec):
      raise BoundaryError(f'{self._where}: spec {self.boundary.spec} has '
                          f'{len(self.boundary.spec)} entries, the result is '
                          f'{list(t.shape)}')
    if torch.compiler.is_compiling():
      # Only ever written: what is read here would be a guard of the graph.
      self.compiled = True
    else:
      self.shapes[tuple(t.shape)] = t.element_size()
    return _Marked.apply(t, *self._arguments)

  @property
  def _where(self) -> str:
    return (f'boundary {self.boundary.module!r} on module '
            f'{self.module or "(the model itself)"!r}')


class Applied:
  """A policy as it was applied to one model.

  Attributes:
    policy: the ShardingPolicy.
    mesh: the mesh it was applied over.
    record_names: the tensors' names in records of programs, by name; they
      differ where another model has tensors of these names.
    annotations: what was marked, by tensor object.
    boundaries: the hooks.
    start: counts before anything was marked.
  """

  def __init__(self, policy: Any, mesh: xla_sharding.Mesh,
               tensors: Mapping[str, torch.Tensor]):
    self.policy = policy
    self.mesh = mesh
    self.record_names = _free_names(tensors)
    self.annotations: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
    self.boundaries: list[BoundaryHook] = []
    self.start = Counts.now()
    self._handles: list[torch.utils.hooks.RemovableHandle] = []

  def hook(self, module: torch.nn.Module, boundary: BoundaryHook) -> None:
    self.boundaries.append(boundary)
    self._handles.append(module.register_forward_hook(boundary))

  def remove(self) -> None:
    """Takes the hooks away; the tensors stay as they are marked."""
    for handle in self._handles:
      handle.remove()
    self._handles.clear()
    self.boundaries.clear()


_applied: weakref.WeakKeyDictionary[torch.nn.Module, Applied] = (
    weakref.WeakKeyDictionary())
# Names in records, by tensor, as long as it lives.
_record_names: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
_kept_models: list[torch.nn.Module] = []


def applied_to(model: torch.nn.Module) -> Optional[Applied]:
  """The policy that was applied to `model` last; None if none was."""
  return _applied.get(model)


def register(model: torch.nn.Module, applied: Applied) -> None:
  _applied[model] = applied
  if os.environ.get(KEEP_VARIABLE) and all(
      m is not model for m in _kept_models):
    _kept_models.append(model)


def forget(model: torch.nn.Module) -> None:
  """Takes away the policy that was applied to `model` last."""
  if (before := _applied.pop(model, None)) is not None:
    before.remove()


def kept_models() -> tuple[torch.nn.Module, ...]:
  """All models that a policy was applied to, under KEEP_VARIABLE."""
  return tuple(_kept_models)


def annotation_for(mesh: xla_sharding.Mesh,
                   statement: Union[Claim, Boundary]) -> Annotation:
  """The annotation that a claim or boundary of a policy makes."""
  index = {str(name): i for i, name in enumerate(mesh.axis_names)}
  return Annotation.from_spec(
      user_mesh(mesh),
      [tuple(index[a] for a in axes_of(entry)) for entry in statement.spec],
      statement.priority, statement.propagate)


def _free_names(tensors: Mapping[str, torch.Tensor]) -> dict[str, str]:
  """The tensors' names, numbered if another model's tensor has one of them.

  By tensor: one may outlive its model, and be in programs still.
  """
  own = {id(t) for t in tensors.values()}
  others = {name for t, name in _record_names.items() if id(t) not in own}
  number, suffix = 1, ''
  while any(name + suffix in others for name in tensors):
    number += 1
    suffix = f' #{number}'
  names = {name: name + suffix for name in tensors}
  for name, t in tensors.items():
    _record_names[t] = names[name]
  return names


def _length(output: Any) -> str:
  if isinstance(output, Mapping):
    return f' with {", ".join(map(repr, output))}'
  return f' of {len(output)}' if isinstance(output, (tuple, list)) else ''
