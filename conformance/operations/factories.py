"""Operations that make tensors of numbers: ranges, constants, identities.

Each meets an input, so that it is part of a program that is sharded.
"""

from __future__ import annotations

import functools

import torch

from .inputs import whole
from .operation import operation, Operation
from .tolerance import APPROXIMATED, EXACT, SAME_BITS

_approximated = functools.partial(operation, 'factories', APPROXIMATED)
_exact = functools.partial(operation, 'factories', EXACT)
_same_bits = functools.partial(operation, 'factories', SAME_BITS)
_INTS = whole(8, 16, dtype=torch.int64)

# Along each dimension of what they meet.
OPERATIONS: tuple[Operation, ...] = (
    _same_bits('arange', lambda x: x + torch.arange(16, device=x.device),
               _INTS),
    _same_bits('arange_column',
               lambda x: x + torch.arange(8, device=x.device)[:, None], _INTS),
    _exact('arange_step',
           lambda x: x + torch.arange(3, -13, -1, device=x.device),
           whole(8, 16)),
    _exact('arange_uneven', lambda x: x * torch.arange(9.0, device=x.device),
           whole(7, 9)),
    _approximated('linspace',
                  lambda x: x + torch.linspace(-1, 2, 16, device=x.device),
                  whole(8, 16)),
    _exact('full', lambda x: x - torch.full((16,), 2.5, device=x.device),
           whole(8, 16)),
    _same_bits('zeros_like', torch.zeros_like, whole(8, 16)),
    _same_bits('ones_like', torch.ones_like, whole(7, 9)),
    _same_bits('full_like_int', lambda x: torch.full_like(x, 2**40), _INTS),
    _exact('eye', lambda x: x + torch.eye(8, device=x.device), whole(8, 8)),
    _exact('eye_uneven', lambda x: x + torch.eye(7, 9, device=x.device),
           whole(7, 9)),
    _same_bits('new_zeros', lambda x: torch.cat((x, x.new_zeros(3, 16))),
               whole(8, 16)),
    _exact('constant', lambda x: x * torch.tensor(
        (1.0, -2.0, 0.5, 4.0), device=x.device), whole(8, 4)),
)
