"""Compares what a device computed with what torch computed on the CPU."""

from __future__ import annotations

from collections.abc import Iterable
import dataclasses
from typing import Any

import torch

from .tolerance import dtype_name, Tolerance


class Mismatch(Exception):
  """A device's result is not the expected one; its text says where and how."""


def compare(expected: torch.Tensor, actual: torch.Tensor,
            tolerance: Tolerance) -> float:
  """Compares two tensors on the CPU: dtype, shape, NaN, infinities, numbers.

  A number that is too small to be normal counts as zero, since devices may
  flush it, but where `tolerance` tells 0.0 from -0.0.

  Returns:
    The largest difference, relative to what it was measured against.

  Raises:
    Mismatch: they differ by more than `tolerance` allows.
  """
  check_type(expected, actual)
  if not expected.dtype.is_floating_point:
    _refuse(actual != expected, expected, actual, 'allowed none')
    return 0.0
  return _compare_floats(expected, actual, tolerance)


def check_type(expected: torch.Tensor, actual: torch.Tensor) -> None:
  """Compares dtypes and shapes of tensors, wherever they are.

  Raises:
    Mismatch: they differ.
  """
  if actual.dtype != expected.dtype:
    raise Mismatch(f'dtype {dtype_name(actual.dtype)}, expected '
                   f'{dtype_name(expected.dtype)}')
  if actual.shape != expected.shape:
    raise Mismatch(
        f'shape {list(actual.shape)}, expected {list(expected.shape)}')


@dataclasses.dataclass(frozen=True)
class Shard:
  """The part of a tensor on a device.

  Attributes:
    index: which part of the tensor that is; `...` for all of it.
    data: on the CPU, without padding.
  """
  device: str
  index: Any
  data: torch.Tensor


def compare_shards(expected: torch.Tensor, shards: Iterable[Shard],
                   tolerance: Tolerance) -> float:
  """Compares what each device holds with its part of what is expected.

  Returns:
    As `compare`.

  Raises:
    Mismatch: as `compare`, with the device and the place in the whole tensor;
      or no device holds some element.
  """
  largest = 0.0
  missing = torch.ones(expected.shape, dtype=torch.bool)
  for shard in shards:
    seen = expected.to(shard.data.dtype, copy=True)
    seen[shard.index] = shard.data
    missing[shard.index] = False
    try:
      largest = max(largest, compare(expected, seen, tolerance))
    except Mismatch as mismatch:
      raise Mismatch(f'device {shard.device}: {mismatch}') from mismatch
  if missing.any():
    raise Mismatch(f'{int(missing.sum())} of {missing.numel()} elements are '
                   'held by no device')
  return largest


def _compare_floats(expected: torch.Tensor, actual: torch.Tensor,
                    tolerance: Tolerance) -> float:
  dtype = expected.dtype
  reference, got = expected.double(), actual.double()
  not_numbers = reference.isnan()
  _refuse(not_numbers != got.isnan(), expected, actual, 'NaN must be the same')
  infinite = reference.isinf() | got.isinf()
  _refuse(infinite & (reference != got), expected, actual,
          'infinities must be the same')
  finite = ~(not_numbers | infinite)
  if tolerance.signed_zeros:
    _refuse(finite & (reference == 0) & (reference.signbit() != got.signbit()),
            expected, actual, '0.0 and -0.0 are not the same here')
    smallest = 0.0
  else:
    smallest = torch.finfo(dtype).smallest_normal
  error = torch.where(finite, (got - reference).abs(), 0.0)
  error = torch.where(error < smallest, 0.0, error)
  scale = reference.abs().clamp(min=tolerance.floor)
  wrong = finite & (error > tolerance.ratio(dtype) * scale)
  _refuse(wrong, expected, actual, tolerance.text(dtype))
  relative = torch.where(finite & (error > 0), error / scale, 0.0)
  return float(relative.max()) if relative.numel() else 0.0


def _refuse(wrong: torch.Tensor, expected: torch.Tensor, actual: torch.Tensor,
            rule: str) -> None:
  """Raises a Failure with the worst of the wrong elements, if any are."""
  if not bool(wrong.any()):
    return
  error = (actual.double() - expected.double()).abs().nan_to_num(
      nan=torch.inf, posinf=torch.inf)
  worst = int(torch.where(wrong, error, -1.0).argmax())
  place = [
      int(i) for i in torch.unravel_index(torch.tensor(worst), wrong.shape)
  ]
  got, wanted = (t.flatten()[worst].item() for t in (actual, expected))
  differs = ''
  if expected.dtype.is_floating_point:
    differs = f', differs by {error.flatten()[worst].item():.2g}'
  raise Mismatch(f'{got!r} at {place}, expected {wanted!r}{differs}; {rule}; '
                 f'{int(wrong.sum())} of {wrong.numel()} elements wrong')
