"""What makes tensors of numbers: ranges, constants, identities.

Each meets an input, so that it is part of a program that is sharded.
"""

from __future__ import annotations

import torch

from . import inputs
from .operation import Call, Inputs, Operation
from .tolerance import APPROXIMATED, EXACT, SAME_BITS, Tolerance

_FAMILY = 'factories'


def operations() -> tuple[Operation, ...]:
  """Factories of tensors along each dimension of what they are used with."""
  ints = lambda g: (inputs.whole(g, 8, 16, dtype=torch.int64),)
  return (
      _operation('arange', ints,
                 lambda x: x + torch.arange(16, device=x.device), SAME_BITS),
      _operation('arange_column', ints,
                 lambda x: x + torch.arange(8, device=x.device)[:, None],
                 SAME_BITS),
      _operation('arange_step', _floats(8, 16),
                 lambda x: x + torch.arange(3, -13, -1, device=x.device),
                 EXACT),
      _operation('arange_uneven', _floats(7, 9),
                 lambda x: x * torch.arange(9.0, device=x.device), EXACT),
      _operation('linspace', _floats(8, 16),
                 lambda x: x + torch.linspace(-1, 2, 16, device=x.device),
                 APPROXIMATED),
      _operation('full', _floats(8, 16), lambda x: x - torch.full(
          (16,), 2.5, device=x.device), EXACT),
      _operation('zeros_like', _floats(8, 16), torch.zeros_like, SAME_BITS),
      _operation('ones_like', _floats(7, 9), torch.ones_like, SAME_BITS),
      _operation('full_like_int', ints, lambda x: torch.full_like(x, 2**40),
                 SAME_BITS),
      _operation('eye', _floats(8, 8),
                 lambda x: x + torch.eye(8, device=x.device), EXACT),
      _operation('eye_uneven', _floats(7, 9),
                 lambda x: x + torch.eye(7, 9, device=x.device), EXACT),
      _operation('new_zeros', _floats(8, 16), lambda x: torch.cat(
          (x, x.new_zeros(3, 16))), SAME_BITS),
      _operation(
          'constant', _floats(8, 4), lambda x: x * torch.tensor(
              (1.0, -2.0, 0.5, 4.0), device=x.device), EXACT),
  )


def _operation(name: str, make: Inputs, call: Call,
               tolerance: Tolerance) -> Operation:
  return Operation(name, _FAMILY, make, call, tolerance)


def _floats(*shape: int) -> Inputs:
  return lambda g: (inputs.whole(g, *shape),)
