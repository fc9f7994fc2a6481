"""Pooling and resampling of images."""

from __future__ import annotations

import functools

import torch.nn.functional as F

from .inputs import distinct
from .operation import operation, Operation
from .tolerance import APPROXIMATED, SAME_BITS

_approximated = functools.partial(operation, 'pooling', APPROXIMATED)
_same_bits = functools.partial(operation, 'pooling', SAME_BITS)
_IMAGE = (8, 8, 6, 6)
_UNEVEN = (3, 5, 7, 7)

# Over windows of one to three dimensions, and of a fixed count.
OPERATIONS: tuple[Operation, ...] = (
    # Largest.
    _same_bits('max_pool1d', lambda x: F.max_pool1d(x, 2), distinct(8, 8, 12)),
    _same_bits('max_pool2d', lambda x: F.max_pool2d(x, 2), distinct(*_IMAGE)),
    _same_bits('max_pool2d_overlapping',
               lambda x: F.max_pool2d(x, 3, stride=2, padding=1),
               distinct(*_IMAGE)),
    _same_bits('max_pool2d_with_indices',
               lambda x: F.max_pool2d(x, 2, return_indices=True),
               distinct(*_IMAGE)),
    # Below zero: what pads a window must not be the largest.
    _same_bits('max_pool2d_uneven',
               lambda x: F.max_pool2d(x, 3, stride=2, padding=1),
               lambda g: distinct(*_UNEVEN)(g) - 1000),
    _same_bits('max_pool3d', lambda x: F.max_pool3d(x, 2),
               distinct(8, 8, 4, 4, 2)),
    _same_bits('adaptive_max_pool2d', lambda x: F.adaptive_max_pool2d(x, 3),
               distinct(*_IMAGE)),
    # Average.
    _approximated('avg_pool1d', lambda x: F.avg_pool1d(x, 2),
                  distinct(8, 8, 12)),
    _approximated('avg_pool2d', lambda x: F.avg_pool2d(x, 2),
                  distinct(*_IMAGE)),
    _approximated('avg_pool2d_padding',
                  lambda x: F.avg_pool2d(x, 3, stride=2, padding=1),
                  distinct(*_IMAGE)),
    _approximated('avg_pool2d_not_counted',
                  lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
                  distinct(*_UNEVEN)),
    _approximated('adaptive_avg_pool2d', lambda x: F.adaptive_avg_pool2d(x, 3),
                  distinct(*_IMAGE)),
    _approximated('adaptive_avg_pool2d_one',
                  lambda x: F.adaptive_avg_pool2d(x, 1), distinct(*_IMAGE)),
    # Resampled.
    _same_bits('upsample_nearest',
               lambda x: F.interpolate(x, scale_factor=2, mode='nearest'),
               distinct(8, 8, 3, 3)),
    _approximated(
        'upsample_bilinear', lambda x: F.interpolate(
            x, size=(6, 6), mode='bilinear', align_corners=False),
        distinct(8, 8, 3, 3)),
    _approximated(
        'upsample_bilinear_corners', lambda x: F.interpolate(
            x, size=(5, 5), mode='bilinear', align_corners=True),
        distinct(8, 8, 3, 3)),
)
