"""Training steps of convolutions that XLA alone partitions wrong, and checks.

Over a mesh of 2 x 4 devices: the official wheel's gradients are too large, or
Shardy ends the process, as each case says. A matrix product is among them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
import copy
from typing import NamedTuple, Optional

import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs

Spec = tuple[Optional[str], ...]


class Case(NamedTuple):
  """A layer, what it convolves, and how both are marked."""
  layer: Callable[[], torch.nn.Module]
  x: tuple[int, ...]
  x_spec: Spec
  weight_spec: Optional[Spec] = None
  devices: Sequence[int] = range(8)


def _convolution(*arguments, **keywords) -> Callable[[], torch.nn.Module]:
  return lambda: torch.nn.Conv1d(*arguments, **keywords)


CASES = {
    # Shardy ends the process; GSPMD's gradient of the weight is too large.
    'grouped':
        Case(lambda: torch.nn.Conv2d(4, 8, 3, padding=1, groups=2),
             (8, 4, 4, 4), ('x', None, None, None), ('y', None, None, None)),
    # That of the weight is too large.
    'depthwise':
        Case(
            _convolution(8, 8, 4, padding=3, groups=8, bias=False), (8, 8, 6),
            ('x', None, None)),
    'strided':
        Case(
            _convolution(8, 8, 3, stride=2, padding=1, groups=4), (8, 8, 7),
            ('x', None, None), (None, None, None)),
    'transposed':
        Case(lambda: torch.nn.ConvTranspose1d(8, 8, 3, stride=2, groups=2),
             (8, 8, 4), ('x', None, None)),
    # The result is too large, and so are both gradients.
    'along the window':
        Case(
            _convolution(8, 8, 4, padding=2), (8, 8, 8), (None, None, 'x'),
            ('y', None, None)),
    # Shardy and GSPMD refuse the gradient of what is convolved.
    'in fewer groups than devices':
        Case(lambda: torch.nn.Conv2d(4, 8, 3, padding=1, groups=2),
             (2, 4, 8, 8), ('x', None, 'y', None), ('y', 'x', None, None)),
    # Shardy ends the process in the gradient of what is convolved.
    'in groups without a window':
        Case(lambda: torch.nn.Conv2d(8, 8, 1, groups=8), (4, 8, 8, 8),
             ('x', None, 'y', None), ('y', None, None, None)),
}
_NO_ORDER = (7, 2, 4, 1, 0, 5, 6, 3)
# The gradient of the weight is summed over the wrong devices.
OF_UNORDERED_DEVICES = {
    # The result is wrong in any order.
    'a dilated convolution of one place':
        Case(
            _convolution(12, 6, 1, dilation=2), (8, 12, 9), (None, None, 'x'),
            ('y', None, None), _NO_ORDER),
    'a product':
        Case(lambda: torch.nn.Linear(3, 16), (8, 3), ('x', None), ('y', None),
             _NO_ORDER),
    'a product in parts':
        Case(lambda: torch.nn.Linear(3, 16, bias=False), (128, 3), ('x', None),
             ('y', None), _NO_ORDER),
    'a convolution':
        Case(
            _convolution(3, 16, 3, padding=1), (6, 3, 9), ('x', None, None),
            ('y', None, None), _NO_ORDER),
    'its gradient in parts':
        Case(
            _convolution(3, 16, 3, padding=1), (64, 3, 9), ('x', None, None),
            ('y', None, None), _NO_ORDER),
}


def check(name: str) -> torch_xla.shardy.ProgramRecord:
  """Trains one step and compares it with the host's; the step's record."""
  case = {**CASES, **OF_UNORDERED_DEVICES}[name]
  mesh = xs.Mesh(np.array(case.devices), (2, 4), ('x', 'y'))
  torch.manual_seed(0)
  layer = case.layer()
  x = torch.randn(case.x, requires_grad=True)
  on_device = copy.deepcopy(layer).to('xla')
  fed = x.detach().to('xla').requires_grad_()
  xs.mark_sharding(fed, mesh, case.x_spec)
  if case.weight_spec:
    xs.mark_sharding(on_device.weight, mesh, case.weight_spec)
  torch_xla.sync()
  with torch_xla.shardy.record() as programs:
    y = on_device(fed)
    y.pow(2).sum().backward()
    torch_xla.sync(wait=True)
  expected = layer(x)
  expected.pow(2).sum().backward()
  for made, right in ((y, expected), (fed.grad, x.grad), (on_device.weight.grad,
                                                          layer.weight.grad)):
    torch.testing.assert_close(made.cpu(), right, rtol=1e-4, atol=1e-4)
  program, = programs
  return program
