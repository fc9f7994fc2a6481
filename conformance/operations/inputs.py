"""Makes inputs of operations: on the CPU, and equal for equal generators."""

from __future__ import annotations

from collections.abc import Callable

import torch

# Makes an input; equal generators make equal ones.
Make = Callable[[torch.Generator], torch.Tensor]
Inputs = tuple[Make, ...]


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> Make:
  """Normally distributed numbers."""
  return lambda g: torch.randn(shape, generator=g).to(dtype)


def uniform(low: float,
            high: float,
            *shape: int,
            dtype: torch.dtype = torch.float32) -> Make:
  """Evenly distributed numbers of [low, high]."""

  def make(g: torch.Generator) -> torch.Tensor:
    ratio = torch.rand(shape, generator=g, dtype=torch.float64)
    return (low + (high - low) * ratio).to(dtype)

  return make


def whole(*shape: int,
          largest: int = 4,
          dtype: torch.dtype = torch.float32) -> Make:
  """Whole numbers of [-largest, largest].

  So small, they are exact in bfloat16, in which a device may multiply, and
  their sums are exact in any order.
  """
  return lambda g: torch.randint(
      -largest, largest + 1, shape, generator=g).to(dtype)


def indices(count: int, *shape: int) -> Make:
  """Indices of a dimension of `count`, in int64; some come more than once."""
  return lambda g: torch.randint(count, shape, generator=g)


def different_indices(count: int, chosen: int) -> Make:
  """Different indices of a dimension of `count`, in any order."""
  return lambda g: torch.randperm(count, generator=g)[:chosen]


def distinct(*shape: int, dtype: torch.dtype = torch.float32) -> Make:
  """Whole numbers in any order, around zero, none of which comes twice."""
  count = torch.Size(shape).numel()
  return lambda g: (torch.randperm(count, generator=g) - count // 2).reshape(
      shape).to(dtype)


def mask(*shape: int) -> Make:
  """Bools, about half of which are true."""
  return lambda g: torch.rand(shape, generator=g) < 0.5


# The usual shapes, which devices divide and which they do not, and inputs.
SHAPE, UNEVEN = (8, 16), (7, 9)
DISTINCT, DISTINCT_UNEVEN = distinct(*SHAPE), distinct(*UNEVEN)
NORMAL, NORMAL_UNEVEN = normal(*SHAPE), normal(*UNEVEN)
WHOLE, WHOLE_UNEVEN = whole(*SHAPE), whole(*UNEVEN)
