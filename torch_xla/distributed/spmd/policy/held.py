"""The tensors of a model, by their names without its wrappers.

FSDPv2, torch.compile and other wrappers hold a model by an attribute of theirs,
and a policy is one of the model: `blocks.0.up.weight`, wrapped or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
import warnings

import torch
from torch_xla.shardy.tensor_names import WRAPPED


class TiedWeightsWarning(UserWarning):
  """Warns of weights that a model says are one, and that are several."""


def owned(
    model: torch.nn.Module) -> Iterator[tuple[tuple[str, ...], torch.Tensor]]:
  """Each parameter and buffer once, with all of its names."""
  names: dict[int, list[str]] = {}
  tensors: dict[int, torch.Tensor] = {}
  for named in (model.named_parameters, model.named_buffers):
    for name, t in named(remove_duplicate=False):
      tensors[id(t)] = t
      names.setdefault(id(t), []).append(_unwrapped(name))
  for key, t in tensors.items():
    yield tuple(dict.fromkeys(names[key])), t


def modules_of(model: torch.nn.Module) -> dict[str, torch.nn.Module]:
  """The model's modules by name; a wrapper stands for what it wraps."""
  found: dict[str, torch.nn.Module] = {}
  for name, module in model.named_modules():
    found.setdefault(_unwrapped(name), module)
  return found


def untied(
    model: torch.nn.Module, tied: Iterable[Sequence[str]] = ()
) -> list[tuple[str, str]]:
  """Pairs of names of a weight that was one, and that are two by now.

  `.to('xla')` makes a copy for each name. Models of transformers say which are
  one, by `_tied_weights_keys`.

  Args:
    tied: names that one weight had, as far as somebody knows.
  """
  tensors = {name: (names[0], t) for names, t in owned(model) for name in names}
  tied_names = [(_unwrapped(first), _unwrapped(name))
                for first, *names in tied
                for name in names]
  for prefix, module in modules_of(model).items():
    tied_names += (
        tuple(f'{prefix}.{n}' if prefix else n
              for n in pair)
        for pair in _said_tied(module))
  pairs = {}
  for name, other in tied_names:
    if name in tensors and other in tensors:
      (first, one), (second, another) = tensors[name], tensors[other]
      if one is not another and one.shape == another.shape:
        pairs[tuple(sorted((first, second)))] = None
  return list(pairs)


def untied_text(name: str, other: str) -> str:
  return (f'{name} and {other} are one weight to the model, and two on the '
          "device: .to('xla') copied it for each name, and they are trained "
          'apart. Tie them again after model.to(...) and before the optimizer '
          'is made: tie(model) of torch_xla.distributed.spmd.policy')


def tie(
    model: torch.nn.Module, tied: Iterable[Sequence[str]] = ()
) -> list[tuple[str, str]]:
  """Makes one again of each weight that `.to('xla')` copied for its names.

  The data of the first name stays. Before an optimizer is made, which would
  still hold the other.

  Args:
    tied: names that one weight had, where the model does not say.

  Returns:
    The pairs of names that are one now, and were not.
  """
  pairs = untied(model, tied)
  places = {
      f'{name}.{key}' if name else key: (module, key)
      for name, module in ((_unwrapped(n), m)
                           for n, m in model.named_modules())
      for key in module._parameters
  }
  for first, name in pairs:
    module, key = places[name]
    setattr(module, key, getattr(*places[first]))
  return pairs


def warn_untied(model: torch.nn.Module) -> None:
  for name, other in untied(model):
    warnings.warn(untied_text(name, other), TiedWeightsWarning, stacklevel=3)


def _said_tied(module: torch.nn.Module) -> Iterator[tuple[str, str]]:
  """The names that a model says are tied: (name, what it is tied to)."""
  keys = getattr(module, '_tied_weights_keys', None)
  config = getattr(module, 'config', None)
  if not keys or not getattr(config, 'tie_word_embeddings', False):
    return
  if isinstance(keys, dict):  # Since transformers 5.
    yield from keys.items()
    return
  embedding = module.get_input_embeddings()
  for name, other in modules_of(module).items():
    if other is embedding:
      for key in keys:
        if key.endswith('weight'):
          yield f'{name}.weight', key


def _unwrapped(name: str) -> str:
  return '.'.join(part for part in name.split('.') if part not in WRAPPED)
