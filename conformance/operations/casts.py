"""Conversions between dtypes: rounding, truncation, signs."""

from __future__ import annotations

import torch

from . import dtypes
from .inputs import indices, Make, mask, whole
from .operation import Operation
from .tolerance import SAME_BITS

_SHAPE = (8, 16)
_FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
_INTS = (torch.int32, torch.int64)
_TO_BOOL = (torch.float32, torch.bfloat16, torch.int32, torch.int64)


def _cast(source: torch.dtype,
          target: torch.dtype,
          make: Make,
          suffix: str = '') -> Operation:
  name = f'{dtypes.name(source)}_to_{dtypes.name(target)}{suffix}'
  return Operation('casts', SAME_BITS, name, lambda x: x.to(target),
                   (lambda g: make(g).to(source),))


def _normal(g: torch.Generator) -> torch.Tensor:
  return 20 * torch.randn(_SHAPE, generator=g, dtype=torch.float64)


def _positive(g: torch.Generator) -> torch.Tensor:
  return _normal(g).abs()


def _halfway(g: torch.Generator) -> torch.Tensor:
  """Numbers in the middle between two of bfloat16, which go to the even."""
  return 1 + (2 * indices(64, *_SHAPE)(g) + 1) / 256


_WIDE = whole(*_SHAPE, largest=2**30, dtype=torch.int64)

# Exact, all of them: IEEE 754 says how to round, and torch to truncate.
OPERATIONS: tuple[Operation, ...] = (
    # Between floats.
    *(_cast(source, target, _normal)
      for source in _FLOATS
      for target in _FLOATS
      if source != target),
    _cast(torch.float32, torch.bfloat16, _halfway, '_halfway'),
    # Beyond what float16 reaches, 65504.
    _cast(torch.float32, torch.float16, lambda g: 3000 * _normal(g),
          '_overflow'),
    # Between floats and ints.
    *(_cast(source, target, _normal)
      for source in _FLOATS[:2]
      for target in _INTS),
    *(_cast(source, target, _normal)
      for source in _INTS
      for target in _FLOATS[:2]),
    _cast(torch.float32, torch.uint8, _positive),
    _cast(torch.uint8, torch.float32, _positive),
    # More digits than a float32 has.
    *(_cast(source, torch.float32, _WIDE, '_rounds') for source in _INTS),
    # Between ints.
    _cast(torch.int32, torch.int64, _WIDE),
    # What is too wide loses its upper bits.
    _cast(torch.int64, torch.int32, lambda g: _WIDE(g) * 8),
    _cast(torch.int32, torch.int8, _WIDE),
    _cast(torch.int32, torch.uint8, _WIDE),
    _cast(torch.uint8, torch.int32, _positive),
    _cast(torch.int8, torch.int64, _normal),
    # Bools.
    *(_cast(source, torch.bool, whole(*_SHAPE, largest=1))
      for source in _TO_BOOL),
    *(_cast(torch.bool, target, mask(*_SHAPE)) for target in _TO_BOOL),
)
