"""Activation functions, softmax among them."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from . import dtypes
from . import inputs
from .operation import Operation
from .tolerance import APPROXIMATED, COMPOUND, EXACT, PROPORTION, Tolerance

_FAMILY = 'activations'
_SHAPE = (8, 16)
_Function = Callable[[torch.Tensor], torch.Tensor]

_CHOSEN: tuple[tuple[str, _Function], ...] = (
    ('relu', F.relu),
    ('relu6', F.relu6),
    ('hardtanh', F.hardtanh),
    ('threshold', lambda x: F.threshold(x, 0.5, -1.0)),
)
_COMPUTED: tuple[tuple[str, _Function], ...] = (
    ('gelu', F.gelu),
    ('gelu_tanh', lambda x: F.gelu(x, approximate='tanh')),
    ('silu', F.silu),
    ('mish', F.mish),
    ('elu', F.elu),
    ('celu', lambda x: F.celu(x, 2.0)),
    ('selu', F.selu),
    ('leaky_relu', F.leaky_relu),
    ('softplus', F.softplus),
    ('softsign', F.softsign),
    ('logsigmoid', F.logsigmoid),
    ('hardsigmoid', F.hardsigmoid),
    ('hardswish', F.hardswish),
    ('softshrink', F.softshrink),
    ('glu', F.glu),
)
_PROPORTIONS: tuple[tuple[str, _Function], ...] = (
    ('softmax_dim_0', lambda x: x.softmax(0)),
    ('softmax_dim_1', lambda x: x.softmax(1)),
    # Of which no exponential is finite.
    ('softmax_of_large', lambda x: (x + 200).softmax(1)),
    ('softmin', lambda x: F.softmin(x, 1)),
)
_LOGARITHMS: tuple[tuple[str, _Function], ...] = (
    ('log_softmax_dim_0', lambda x: x.log_softmax(0)),
    ('log_softmax_dim_1', lambda x: x.log_softmax(1)),
)
_LOW_PRECISION = (torch.bfloat16, torch.float16)


def operations() -> tuple[Operation, ...]:
  """Each in float32; those of a transformer in 16 bits and uneven too."""
  return (
      *(_operation(name, function, EXACT) for name, function in _CHOSEN),
      *(_operation(name, function, APPROXIMATED)
        for name, function in _COMPUTED),
      *(_operation(name, function, PROPORTION)
        for name, function in _PROPORTIONS),
      *(_operation(name, function, COMPOUND) for name, function in _LOGARITHMS),
      *(_operation(
          f'{name}_{dtypes.name(dtype)}', function, tolerance, dtype=dtype)
        for name, function, tolerance in (
            ('gelu', F.gelu, COMPOUND), ('silu', F.silu, COMPOUND),
            ('softmax', lambda x: x.softmax(1), PROPORTION))
        for dtype in _LOW_PRECISION),
      _operation('softmax_uneven_dim_0', lambda x: x.softmax(0), PROPORTION,
                 (7, 9)),
      _operation('softmax_uneven_dim_1', lambda x: x.softmax(1), PROPORTION,
                 (7, 9)),
      Operation('prelu', _FAMILY, lambda g:
                (inputs.normal(g, 8, 8, 4), inputs.normal(g, 8)), F.prelu,
                COMPOUND),
  )


def _operation(name: str,
               function: _Function,
               tolerance: Tolerance,
               shape: tuple[int, ...] = _SHAPE,
               dtype: torch.dtype = torch.float32) -> Operation:
  return Operation(name, _FAMILY, lambda g:
                   (inputs.normal(g, *shape, dtype=dtype),), function,
                   tolerance)
