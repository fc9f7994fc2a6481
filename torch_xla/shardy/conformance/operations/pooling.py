"""Pooling and resampling of images."""

from __future__ import annotations

import torch.nn.functional as F

from . import inputs
from .operation import Call, Inputs, Operation
from .tolerance import APPROXIMATED, SAME_BITS, Tolerance

_FAMILY = 'pooling'
_IMAGE = (8, 8, 6, 6)
_UNEVEN = (3, 5, 7, 7)


def operations() -> tuple[Operation, ...]:
  """Pooling over windows of one to three dimensions, or to a fixed size."""
  return (*_largest(), *_average(), *_resampled())


def _operation(name: str, make: Inputs, call: Call,
               tolerance: Tolerance) -> Operation:
  return Operation(name, _FAMILY, make, call, tolerance)


def _one(*shape: int) -> Inputs:
  return lambda g: (inputs.distinct(g, *shape),)


def _largest() -> tuple[Operation, ...]:
  # Below zero: what pads a window must not be the largest.
  negative = lambda g: (inputs.distinct(g, *_UNEVEN) - 1000,)
  return (
      _operation('max_pool1d', _one(8, 8, 12), lambda x: F.max_pool1d(x, 2),
                 SAME_BITS),
      _operation('max_pool2d', _one(*_IMAGE), lambda x: F.max_pool2d(x, 2),
                 SAME_BITS),
      _operation('max_pool2d_overlapping', _one(*_IMAGE),
                 lambda x: F.max_pool2d(x, 3, stride=2, padding=1), SAME_BITS),
      _operation('max_pool2d_with_indices', _one(*_IMAGE),
                 lambda x: F.max_pool2d(x, 2, return_indices=True), SAME_BITS),
      _operation('max_pool2d_uneven', negative,
                 lambda x: F.max_pool2d(x, 3, stride=2, padding=1), SAME_BITS),
      _operation('max_pool3d', _one(8, 8, 4, 4, 2),
                 lambda x: F.max_pool3d(x, 2), SAME_BITS),
      _operation('adaptive_max_pool2d', _one(*_IMAGE),
                 lambda x: F.adaptive_max_pool2d(x, 3), SAME_BITS),
  )


def _average() -> tuple[Operation, ...]:
  return (
      _operation('avg_pool1d', _one(8, 8, 12), lambda x: F.avg_pool1d(x, 2),
                 APPROXIMATED),
      _operation('avg_pool2d', _one(*_IMAGE), lambda x: F.avg_pool2d(x, 2),
                 APPROXIMATED),
      _operation('avg_pool2d_padding', _one(*_IMAGE),
                 lambda x: F.avg_pool2d(x, 3, stride=2, padding=1),
                 APPROXIMATED),
      _operation('avg_pool2d_not_counted', _one(*_UNEVEN),
                 lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
                 APPROXIMATED),
      _operation('adaptive_avg_pool2d', _one(*_IMAGE),
                 lambda x: F.adaptive_avg_pool2d(x, 3), APPROXIMATED),
      _operation('adaptive_avg_pool2d_one', _one(*_IMAGE),
                 lambda x: F.adaptive_avg_pool2d(x, 1), APPROXIMATED),
  )


def _resampled() -> tuple[Operation, ...]:
  small = _one(8, 8, 3, 3)
  return (
      _operation('upsample_nearest', small,
                 lambda x: F.interpolate(x, scale_factor=2, mode='nearest'),
                 SAME_BITS),
      _operation(
          'upsample_bilinear', small, lambda x: F.interpolate(
              x, size=(6, 6), mode='bilinear', align_corners=False),
          APPROXIMATED),
      _operation(
          'upsample_bilinear_corners', small, lambda x: F.interpolate(
              x, size=(5, 5), mode='bilinear', align_corners=True),
          APPROXIMATED),
  )
