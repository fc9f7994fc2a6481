"""Operations against torch on the CPU, alone and under shardings of a mesh.

A sharding is named by what dimensions 0 and 1 of every input are split over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
import functools
from typing import Optional, Union

import torch
import torch_xla
import torch_xla.distributed.spmd as xs

from ..case import Case, Needs, NotApplicable, Tier
from ..context import Context
from ..operations import operations, sharded
from ..operations.operation import expected_of, Operation
from ..comparison import check_type, compare_shards, dtype_name
from ..torch_session import shards, SPECS, TorchSession

# What dimensions 0 and 1 are split over; None: no annotation at all.
_Split = Optional[tuple[Union[None, str, tuple[str, ...]], ...]]

_ALONE = 'alone'
_SHARDINGS: Mapping[str, _Split] = {_ALONE: None, **SPECS}
# Each dimension over an axis, and one over both; every night the others.
_EACH_RUN = (_ALONE, 'data_model', 'both_none')
# What some devices have no arithmetic in.
_OPTIONAL = (torch.float64, torch.float16, torch.int16, torch.int8, torch.uint8)


def _cases() -> tuple[Case, ...]:
  """A case for each family and sharding, whose parts are the operations.

  Under shardings some operations stand for others: see `sharded`.
  """
  by_family: dict[str, list[Operation]] = {}
  for operation in operations():
    by_family.setdefault(operation.family, []).append(operation)
  return tuple(
      _case(family, members, name, split)
      for name, split in _SHARDINGS.items()
      for family, members in by_family.items())


def _case(family: str, members: Iterable[Operation], name: str,
          split: _Split) -> Case:
  tried = {
      member.name: member
      for member in members
      if name == _ALONE or sharded.is_tried_sharded(member)
  }
  return Case(
      name=f'operations.{family}.{name}',
      means=_meaning(family, split),
      run=functools.partial(_run, tried, split),
      parts=tuple(tried),
      devices=1 if split is None else 2,
      needs=Needs.TORCH_XLA,
      tier=Tier.WHOLE if name in _EACH_RUN else Tier.NIGHTLY)


def _meaning(family: str, split: _Split) -> str:
  text = f'models compute something else than on a CPU ({_words(family)})'
  if split is None:
    return text
  if split == (None, None):
    return f'{text} when their tensors are replicated over a mesh'
  over = ' and '.join(f'dimension {dim} is split over {_words(entry)}'
                      for dim, entry in enumerate(split)
                      if entry is not None)
  return f'{text} when {over}'


def _words(name: Union[str, tuple[str, ...]]) -> str:
  if isinstance(name, tuple):
    return ' and '.join(f"'{axis}'" for axis in name)
  return name.replace('_', ' ')


def _run(tried: Mapping[str, Operation], split: _Split, context: Context,
         part: str) -> str:
  operation = tried[part]
  # Before autograd counts the devices, which it does once.
  session = context.torch()
  inputs, expected = expected_of(operation, context.seed)
  try:
    placed = [_place(session, tensor, split) for tensor in inputs]
    results = _tuple(operation.call(*placed))
    torch_xla.sync(wait=True)
  except RuntimeError:
    _needs(session, {tensor.dtype for tensor in (*inputs, *_tuple(expected))})
    raise
  worst = 0.
  for wanted, result in zip(_tuple(expected), results):
    check_type(wanted, result)
    difference = compare_shards(wanted, shards(result), operation.tolerance)
    worst = max(worst, difference)
  return f'off by {worst:.1g} relative' if worst else 'equal'


def _place(session: TorchSession, tensor: torch.Tensor,
           split: _Split) -> torch.Tensor:
  placed = session.to_device(tensor)
  if split is not None:
    spec = (*split, *(None,) * tensor.dim())[:tensor.dim()]
    xs.mark_sharding(placed, session.grid(), spec)
  return placed


def _needs(session: TorchSession, needed_dtypes: Iterable[torch.dtype]) -> None:
  """Skips the part if the device lacks one of the dtypes: it cannot even add."""
  for dtype in needed_dtypes:
    if dtype not in _OPTIONAL:
      continue
    try:
      (session.to_device(torch.ones(8, dtype=dtype)) + 1).cpu()
    except RuntimeError as error:
      raise NotApplicable(
          f'the plugin has no {dtype_name(dtype)}: {error}') from error


def _tuple(
    results: Union[torch.Tensor, tuple[torch.Tensor, ...]]
) -> tuple[torch.Tensor, ...]:
  return results if isinstance(results, tuple) else (results,)


CASES: tuple[Case, ...] = _cases()
