"""The names that users know tensors by, for records, warnings and audits.

A tensor has the name that it was given. Where it was given none, the living
modules and optimizers are looked through, when somebody asks and not before:

    blocks.0.up.weight             a parameter or a buffer, without what FSDP,
                                   torch.compile and other wrappers put in
    up.weight of Teacher           where two models have one of that name
    up.weight of one of 2 Net      where their class is the same as well
    exp_avg of blocks.0.up.weight  an optimizer's state
    tensor marked at train.py:12   what a tool noted of one without another name
    blocks.0.up, or Net            a module

Names are words for people. No program depends on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
import contextlib
import gc
import time
from typing import Any

import torch

from .tensor_refs import tensor_dict

# The names of the attributes by which wrappers hold what they wrap.
WRAPPED = frozenset(('_orig_module', '_orig_mod', '_checkpoint_wrapped_module',
                     '_fsdp_wrapped_module'))

# The names of this process: each is of use wherever its tensor goes.
_names = tensor_dict()
_noted = tensor_dict()


def name_tensors(tensors: Mapping[str, torch.Tensor]) -> None:
  """Remembers each tensor's name, as long as it lives; the last one counts."""
  for name, tensor in tensors.items():
    _names[tensor] = name


def note(tensor: torch.Tensor, name: str) -> None:
  """Remembers a name for a tensor that gets no other; the last one counts."""
  _noted[tensor] = name


def noted() -> list[tuple[torch.Tensor, str]]:
  with contextlib.suppress(RuntimeError):  # Another thread notes one.
    return list(_noted.items())
  return []


def names_of(tensors: Sequence[torch.Tensor]) -> tuple[str, ...]:
  """The tensors' names, empty where there is none, by one look at most."""
  unknown = [tensor for tensor in tensors if tensor not in _names]
  if any(map(_living.is_worth_a_look, unknown)):
    _living.look(unknown)
  return tuple(
      _names.get(tensor) or _living.names.get(tensor) or _noted.get(tensor, '')
      for tensor in tensors)


def living_names() -> list[tuple[torch.Tensor, str]]:
  """Names of what the living modules and optimizers hold, and of what was named.

  Goes through all objects that the garbage collector knows, some 50 ms. While
  a sync runs, tensors have no shapes, and nothing but what was named is found.
  """
  with contextlib.suppress(RuntimeError):
    return [*_names.items(), *names_in(*living_owners())]
  return list(_names.items())


def names_in(
    modules: Iterable[torch.nn.Module],
    optimizers: Iterable[torch.optim.Optimizer]
) -> list[tuple[torch.Tensor, str]]:
  """Names of what modules and optimizers hold, the first of each to count.

  Where models have a name in common, their classes tell them apart.
  """
  named = _names_in(modules)
  names = [(t, name) for t, name in named if isinstance(t, torch.Tensor)]
  by_id = {id(tensor): name for tensor, name in reversed(names)}
  for optimizer in optimizers:
    for tensor, state in list(vars(optimizer).get('state', {}).items()):
      name = by_id.get(id(tensor))
      if name is None or not isinstance(state, dict):
        continue
      for key, value in list(state.items()):
        if isinstance(value, torch.Tensor) and not _is_scalar(value):
          names.append((value, f'{key} of {name}'))
  return names


def paths_in(
    modules: Iterable[torch.nn.Module]) -> list[tuple[torch.nn.Module, str]]:
  """The paths of modules and of those in them, of a whole model its class."""
  return [(module, path)
          for module, path in _names_in(modules)
          if isinstance(module, torch.nn.Module)]


def _names_in(modules: Iterable[torch.nn.Module]) -> list[tuple[Any, str]]:
  by_root = [(type(root).__name__, list(_named(root, (), set())))
             for root in roots(list(modules))]
  classes: dict[str, list[str]] = {}  # Of the models that have a name.
  for title, named in by_root:
    for name in dict.fromkeys(name for _, name in named):
      classes.setdefault(name, []).append(title)

  def told_apart(name: str, title: str) -> str:
    if len(classes[name]) == 1:
      return name
    same = classes[name].count(title)
    return f'{name} of {title if same == 1 else f"one of {same} {title}"}'

  return [(of, told_apart(name, title) if name else title)
          for title, named in by_root
          for of, name in named]


def _is_scalar(t: torch.Tensor) -> bool:
  try:
    return not t.dim()
  except RuntimeError:  # While a sync computes it, it has no shape.
    return False


class _Living:
  """Names of what the living modules and optimizers held at the last look.

  A look goes through all objects that the garbage collector knows, some 50 ms.
  It is worth that for a parameter that it may find; of other tensors, such as
  the batches of a loader, most are in no module.
  """

  def __init__(self):
    self.names = tensor_dict()
    # What the last look was for and did not find.
    self._unnamed = tensor_dict()
    self._ended = self._took = 0.0

  def is_worth_a_look(self, tensor: torch.Tensor) -> bool:
    if tensor in self.names or tensor in self._unnamed:
      return False
    # Of a program's tensors that are in no module each is asked for in turn.
    if self._ended and time.monotonic() - self._ended < self._took:
      return False
    return not self._ended or isinstance(tensor, torch.nn.Parameter)

  def look(self, sought: Iterable[torch.Tensor]) -> None:
    start = time.monotonic()
    modules, optimizers = living_owners()
    names = tensor_dict()
    # Another thread may be changing them.
    with contextlib.suppress(RuntimeError):
      for tensor, name in names_in(modules, optimizers):
        names.setdefault(tensor, name)
    self.names = names
    self._unnamed = tensor_dict(
        {tensor: True for tensor in sought if tensor not in names})
    self._ended = time.monotonic()
    self._took = self._ended - start


_living = _Living()


def living_owners(
) -> tuple[list[torch.nn.Module], list[torch.optim.Optimizer]]:
  modules, optimizers = [], []
  # Their classes, and not what an object says that its class is: a proxy may do
  # anything then.
  for candidate in gc.get_objects():
    if issubclass(type(candidate), torch.nn.Module):
      modules.append(candidate)
    elif issubclass(type(candidate), torch.optim.Optimizer):
      optimizers.append(candidate)
  return modules, optimizers


def _parts(module: torch.nn.Module, which: str) -> list[tuple[str, Any]]:
  """The parts of a module as they are stored; its methods may say otherwise."""
  return [(name, part)
          for name, part in list(vars(module).get(which, {}).items())
          if part is not None]


def roots(modules: Sequence[torch.nn.Module]) -> list[torch.nn.Module]:
  """The modules that no other holds, and those that hold each other, each once.

  Graphs that torch.compile made come last: they hold what a model holds.
  """
  part_ids = {
      id(part)
      for module in modules
      for _, part in _parts(module, '_modules')
      if part is not module
  }
  each = {id(m): m for m in modules}.values()
  first = [module for module in each if id(module) not in part_ids]
  first.sort(key=lambda root: isinstance(root, torch.fx.GraphModule))
  reached = {id(m) for root in first for m in _tensors_below(root, set())}
  return [*first, *(m for m in each if id(m) not in reached)]


def _tensors_below(module: torch.nn.Module,
                   visited: set[int]) -> Iterator[torch.nn.Module]:
  if id(module) not in visited:
    visited.add(id(module))
    yield module
    for _, part in _parts(module, '_modules'):
      yield from _tensors_below(part, visited)


def _named(module: torch.nn.Module, path: tuple[str, ...],
           visited: set[int]) -> Iterator[tuple[Any, str]]:
  """A module, its tensors, and the modules in it with theirs, each once."""
  if id(module) in visited:
    return
  visited.add(id(module))
  yield module, '.'.join(path)
  for which in ('_parameters', '_buffers'):
    for name, tensor in _parts(module, which):
      yield from _with_inner(tensor, '.'.join((*path, name)))
  for name, part in _parts(module, '_modules'):
    inner = path if name in WRAPPED else (*path, name)
    yield from _named(part, inner, visited)


def _with_inner(tensor: torch.Tensor,
                name: str) -> Iterator[tuple[torch.Tensor, str]]:
  """A tensor, and the one that an XLAShardedTensor is a shell of."""
  yield tensor, name
  inner = getattr(tensor, 'global_tensor', None)
  if isinstance(inner, torch.Tensor):
    yield inner, name
