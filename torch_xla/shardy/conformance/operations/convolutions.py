"""Convolutions: of one to three dimensions, grouped, dilated, transposed."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from . import inputs
from .operation import Call, Inputs, Operation
from .tolerance import EXACT

_FAMILY = 'convolutions'
_IMAGE = (8, 8, 6, 6)


def operations() -> tuple[Operation, ...]:
  """Convolutions of whole numbers, which every device computes exactly."""
  return (*_plain(), *_of_other_windows(), *_transposed())


def _operation(name: str, make: Inputs, call: Call) -> Operation:
  return Operation(name, _FAMILY, make, call, EXACT)


def _whole(*shapes: tuple[int, ...],
           dtype: torch.dtype = torch.float32) -> Inputs:
  return lambda g: tuple(
      inputs.whole(g, *shape, largest=3, dtype=dtype) for shape in shapes)


def _plain() -> tuple[Operation, ...]:
  return (
      _operation('conv1d', _whole((8, 8, 12), (16, 8, 3), (16,)), F.conv1d),
      _operation('conv2d', _whole(_IMAGE, (16, 8, 3, 3), (16,)), F.conv2d),
      _operation('conv2d_bfloat16',
                 _whole(_IMAGE, (8, 8, 3, 3), dtype=torch.bfloat16), F.conv2d),
      _operation('conv2d_1x1', _whole(_IMAGE, (16, 8, 1, 1)), F.conv2d),
      _operation('conv2d_uneven', _whole((3, 5, 7, 9), (6, 5, 3, 3), (6,)),
                 F.conv2d),
      _operation('conv3d', _whole((8, 8, 4, 4, 4), (8, 8, 2, 2, 2)), F.conv3d),
  )


def _of_other_windows() -> tuple[Operation, ...]:
  image = _whole(_IMAGE, (8, 8, 3, 3))
  return (
      _operation('conv1d_padding', _whole((8, 8, 12), (16, 8, 3)),
                 lambda x, w: F.conv1d(x, w, padding=1)),
      _operation('conv2d_padding', image,
                 lambda x, w: F.conv2d(x, w, padding=(1, 2))),
      _operation('conv2d_stride', image,
                 lambda x, w: F.conv2d(x, w, stride=2, padding=1)),
      _operation('conv2d_dilation', image,
                 lambda x, w: F.conv2d(x, w, dilation=2)),
      _operation('conv1d_groups', _whole((8, 8, 12), (16, 4, 3)),
                 lambda x, w: F.conv1d(x, w, groups=2)),
      _operation('conv2d_groups', _whole(_IMAGE, (16, 2, 3, 3)),
                 lambda x, w: F.conv2d(x, w, groups=4)),
      _operation('conv2d_depthwise', _whole(_IMAGE, (8, 1, 3, 3)),
                 lambda x, w: F.conv2d(x, w, groups=8)),
  )


def _transposed() -> tuple[Operation, ...]:
  image = _whole((8, 8, 4, 4), (8, 8, 3, 3))
  return (
      _operation('conv_transpose1d', _whole((8, 8, 6), (8, 16, 3)),
                 F.conv_transpose1d),
      _operation('conv_transpose2d', image, F.conv_transpose2d),
      _operation(
          'conv_transpose2d_stride', image, lambda x, w: F.conv_transpose2d(
              x, w, stride=2, padding=1, output_padding=1)),
      _operation('conv_transpose2d_groups', _whole((8, 8, 4, 4), (8, 4, 3, 3)),
                 lambda x, w: F.conv_transpose2d(x, w, groups=2)),
  )
