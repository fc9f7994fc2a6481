"""Convolutions: of one to three dimensions, grouped, dilated, transposed."""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F

from .inputs import whole
from .operation import operation, Operation
from .tolerance import EXACT

_exact = functools.partial(operation, 'convolutions', EXACT)
_whole = functools.partial(whole, largest=3)
_IMAGE = _whole(8, 8, 6, 6)

# Convolutions of whole numbers, which every device computes exactly.
OPERATIONS: tuple[Operation, ...] = (
    # Plain.
    _exact('conv1d', F.conv1d, _whole(8, 8, 12), _whole(16, 8, 3), _whole(16)),
    _exact('conv2d', F.conv2d, _IMAGE, _whole(16, 8, 3, 3), _whole(16)),
    _exact('conv2d_bfloat16', F.conv2d,
           _whole(8, 8, 6, 6, dtype=torch.bfloat16),
           _whole(8, 8, 3, 3, dtype=torch.bfloat16)),
    _exact('conv2d_1x1', F.conv2d, _IMAGE, _whole(16, 8, 1, 1)),
    _exact('conv2d_uneven', F.conv2d, _whole(3, 5, 7, 9), _whole(6, 5, 3, 3),
           _whole(6)),
    _exact('conv3d', F.conv3d, _whole(8, 8, 4, 4, 4), _whole(8, 8, 2, 2, 2)),
    # Of other windows.
    _exact('conv1d_padding', lambda x, w: F.conv1d(x, w, padding=1),
           _whole(8, 8, 12), _whole(16, 8, 3)),
    _exact('conv2d_padding', lambda x, w: F.conv2d(x, w, padding=(1, 2)),
           _IMAGE, _whole(8, 8, 3, 3)),
    _exact('conv2d_stride', lambda x, w: F.conv2d(x, w, stride=2, padding=1),
           _IMAGE, _whole(8, 8, 3, 3)),
    _exact('conv2d_dilation', lambda x, w: F.conv2d(x, w, dilation=2), _IMAGE,
           _whole(8, 8, 3, 3)),
    _exact('conv1d_groups', lambda x, w: F.conv1d(x, w, groups=2),
           _whole(8, 8, 12), _whole(16, 4, 3)),
    _exact('conv2d_groups', lambda x, w: F.conv2d(x, w, groups=4), _IMAGE,
           _whole(16, 2, 3, 3)),
    _exact('conv2d_depthwise', lambda x, w: F.conv2d(x, w, groups=8), _IMAGE,
           _whole(8, 1, 3, 3)),
    # Transposed.
    _exact('conv_transpose1d', F.conv_transpose1d, _whole(8, 8, 6),
           _whole(8, 16, 3)),
    _exact('conv_transpose2d', F.conv_transpose2d, _whole(8, 8, 4, 4),
           _whole(8, 8, 3, 3)),
    _exact(
        'conv_transpose2d_stride', lambda x, w: F.conv_transpose2d(
            x, w, stride=2, padding=1, output_padding=1), _whole(8, 8, 4, 4),
        _whole(8, 8, 3, 3)),
    _exact('conv_transpose2d_groups',
           lambda x, w: F.conv_transpose2d(x, w, groups=2), _whole(8, 8, 4, 4),
           _whole(8, 4, 3, 3)),
)
