"""Conversions between dtypes: rounding, truncation, signs."""

from __future__ import annotations

from collections.abc import Callable

import torch

from . import dtypes
from . import inputs
from .operation import Operation
from .tolerance import SAME_BITS

_FAMILY = 'casts'
_SHAPE = (8, 16)
_FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
_INTS = (torch.int32, torch.int64, torch.uint8)


def operations() -> tuple[Operation, ...]:
  """Casts, all exact: IEEE 754 says how to round, torch how to truncate."""
  return (
      *_between_floats(),
      *_between_floats_and_ints(),
      *_between_ints(),
      *_bools(),
  )


def _cast(source: torch.dtype,
          target: torch.dtype,
          make: Callable[[torch.Generator], torch.Tensor],
          suffix: str = '') -> Operation:
  name = f'{dtypes.name(source)}_to_{dtypes.name(target)}{suffix}'
  return Operation(name, _FAMILY, lambda g: (make(g).to(source),),
                   lambda x: x.to(target), SAME_BITS)


def _normal(g: torch.Generator) -> torch.Tensor:
  return 20 * torch.randn(_SHAPE, generator=g, dtype=torch.float64)


def _halfway(g: torch.Generator) -> torch.Tensor:
  """Numbers in the middle between two of bfloat16, which go to the even."""
  return 1 + (2 * inputs.indices(g, 64, *_SHAPE) + 1) / 256


def _between_floats() -> tuple[Operation, ...]:
  return (
      *(_cast(source, target, _normal)
        for source in _FLOATS
        for target in _FLOATS
        if source != target),
      _cast(torch.float32, torch.bfloat16, _halfway, '_halfway'),
      # Beyond what float16 reaches, 65504.
      _cast(torch.float32, torch.float16, lambda g: 3000 * _normal(g),
            '_overflow'),
  )


def _between_floats_and_ints() -> tuple[Operation, ...]:
  return (
      *(_cast(source, target, _normal)
        for source in _FLOATS[:2]
        for target in _INTS[:2]),
      *(_cast(source, target, _normal)
        for source in _INTS[:2]
        for target in _FLOATS[:2]),
      _cast(torch.float32, torch.uint8, lambda g: _normal(g).abs()),
      _cast(torch.uint8, torch.float32, lambda g: _normal(g).abs()),
      # More digits than a float32 has.
      _cast(torch.int32, torch.float32, _wide, '_rounds'),
      _cast(torch.int64, torch.float32, _wide, '_rounds'),
  )


def _wide(g: torch.Generator) -> torch.Tensor:
  return inputs.whole(g, *_SHAPE, largest=2**30, dtype=torch.int64)


def _between_ints() -> tuple[Operation, ...]:
  return (
      _cast(torch.int32, torch.int64, _wide),
      # What is too wide loses its upper bits.
      _cast(torch.int64, torch.int32, lambda g: _wide(g) * 8),
      _cast(torch.int32, torch.int8, _wide),
      _cast(torch.int32, torch.uint8, _wide),
      _cast(torch.uint8, torch.int32, lambda g: _normal(g).abs()),
      _cast(torch.int8, torch.int64, _normal),
  )


def _bools() -> tuple[Operation, ...]:
  to_bool = (torch.float32, torch.bfloat16, torch.int32, torch.int64)
  return (
      *(_cast(source, torch.bool, lambda g: inputs.whole(g, *_SHAPE, largest=1))
        for source in to_bool),
      *(_cast(torch.bool, target, lambda g: inputs.mask(g, *_SHAPE))
        for target in to_bool),
  )
