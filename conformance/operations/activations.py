"""Activation functions, softmax among them."""

from __future__ import annotations

from collections.abc import Callable
import functools

import torch
import torch.nn.functional as F

from . import dtypes
from .inputs import normal
from .operation import operation, Operation
from .tolerance import APPROXIMATED, COMPOUND, EXACT, PROPORTION, Tolerance

_MATRIX, _UNEVEN = normal(8, 16), normal(7, 9)
_Function = Callable[[torch.Tensor], torch.Tensor]

_FUNCTIONS: tuple[tuple[Tolerance, str, _Function], ...] = (
    (EXACT, 'relu', F.relu),
    (EXACT, 'relu6', F.relu6),
    (EXACT, 'hardtanh', F.hardtanh),
    (EXACT, 'threshold', lambda x: F.threshold(x, 0.5, -1.0)),
    (APPROXIMATED, 'gelu', F.gelu),
    (APPROXIMATED, 'gelu_tanh', lambda x: F.gelu(x, approximate='tanh')),
    (APPROXIMATED, 'silu', F.silu),
    (APPROXIMATED, 'mish', F.mish),
    (APPROXIMATED, 'elu', F.elu),
    (APPROXIMATED, 'celu', lambda x: F.celu(x, 2.0)),
    (APPROXIMATED, 'selu', F.selu),
    (APPROXIMATED, 'leaky_relu', F.leaky_relu),
    (APPROXIMATED, 'softplus', F.softplus),
    (APPROXIMATED, 'softsign', F.softsign),
    (APPROXIMATED, 'logsigmoid', F.logsigmoid),
    (APPROXIMATED, 'hardsigmoid', F.hardsigmoid),
    (APPROXIMATED, 'hardswish', F.hardswish),
    (APPROXIMATED, 'softshrink', F.softshrink),
    (APPROXIMATED, 'glu', F.glu),
    (PROPORTION, 'softmax_dim_0', lambda x: x.softmax(0)),
    (PROPORTION, 'softmax_dim_1', lambda x: x.softmax(1)),
    # Of which no exponential is finite.
    (PROPORTION, 'softmax_of_large', lambda x: (x + 200).softmax(1)),
    (PROPORTION, 'softmin', lambda x: F.softmin(x, 1)),
    (COMPOUND, 'log_softmax_dim_0', lambda x: x.log_softmax(0)),
    (COMPOUND, 'log_softmax_dim_1', lambda x: x.log_softmax(1)),
)
_operation = functools.partial(operation, 'activations')

# Each in float32; those of a transformer in 16 bits and uneven too.
OPERATIONS: tuple[Operation, ...] = (
    *(_operation(*one, _MATRIX) for one in _FUNCTIONS),
    *(_operation(tolerance, f'{name}_{dtypes.name(dtype)}', function,
                 normal(8, 16, dtype=dtype))
      for tolerance, name, function in (
          (COMPOUND, 'gelu', F.gelu), (COMPOUND, 'silu', F.silu),
          (PROPORTION, 'softmax', lambda x: x.softmax(1)))
      for dtype in (torch.bfloat16, torch.float16)),
    _operation(PROPORTION, 'softmax_uneven_dim_0', lambda x: x.softmax(0),
               _UNEVEN),
    _operation(PROPORTION, 'softmax_uneven_dim_1', lambda x: x.softmax(1),
               _UNEVEN),
    _operation(COMPOUND, 'prelu', F.prelu, normal(8, 8, 4), normal(8)),
)
