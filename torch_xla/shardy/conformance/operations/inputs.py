"""Makes inputs of operations: on the CPU, and equal for equal generators."""

from __future__ import annotations

import torch


def normal(generator: torch.Generator,
           *shape: int,
           dtype: torch.dtype = torch.float32) -> torch.Tensor:
  """Normally distributed numbers."""
  return torch.randn(shape, generator=generator).to(dtype)


def between(generator: torch.Generator,
            low: float,
            high: float,
            *shape: int,
            dtype: torch.dtype = torch.float32) -> torch.Tensor:
  """Evenly distributed numbers of [low, high]."""
  ratio = torch.rand(shape, generator=generator, dtype=torch.float64)
  return (low + (high - low) * ratio).to(dtype)


def whole(generator: torch.Generator,
          *shape: int,
          largest: int = 4,
          dtype: torch.dtype = torch.float32) -> torch.Tensor:
  """Whole numbers of [-largest, largest].

  So small, they are exact in bfloat16, in which a device may multiply, and
  their sums are exact in any order.
  """
  return torch.randint(
      -largest, largest + 1, shape, generator=generator).to(dtype)


def indices(generator: torch.Generator, count: int, *shape:
            int) -> torch.Tensor:
  """Indices of a dimension of `count`, in int64; some come more than once."""
  return torch.randint(count, shape, generator=generator)


def different_indices(generator: torch.Generator, count: int,
                      chosen: int) -> torch.Tensor:
  """`chosen` different indices of a dimension of `count`, in any order."""
  return torch.randperm(count, generator=generator)[:chosen]


def distinct(generator: torch.Generator,
             *shape: int,
             dtype: torch.dtype = torch.float32) -> torch.Tensor:
  """Whole numbers in any order, around zero, none of which comes twice."""
  count = torch.Size(shape).numel()
  numbers = torch.randperm(count, generator=generator) - count // 2
  return numbers.reshape(shape).to(dtype)


def mask(generator: torch.Generator, *shape: int) -> torch.Tensor:
  """Bools, about half of which are true."""
  return torch.rand(shape, generator=generator) < 0.5
