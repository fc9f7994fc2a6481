"""Gradients: what autograd makes of a function, and every input's."""

from __future__ import annotations

from collections.abc import Callable
import functools

import torch
import torch.nn.functional as F

from .inputs import uniform, distinct, indices, normal, whole, Inputs, Make
from .operation import operation, Operation
from .tolerance import COMPOUND, EXACT, PROPORTION, Tolerance

_Function = Callable[..., torch.Tensor]

_whole = functools.partial(whole, largest=3)
_PAIR: Inputs = (normal(8, 16), normal(8, 16))
_POOLED: Inputs = (distinct(8, 8, 6, 6), whole(8, 8, 3, 3))


def _scalar_one(g: torch.Generator) -> torch.Tensor:
  """The gradient of a loss."""
  return torch.ones(())


def _gradients(function: _Function) -> Callable[..., tuple[torch.Tensor, ...]]:
  """The gradients of all float inputs but the last, the result's."""

  def call(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    *arguments, result_gradient = tensors
    arguments = [
        t.detach().requires_grad_() if t.is_floating_point() else t
        for t in arguments
    ]
    result = function(*arguments)
    return torch.autograd.grad(result,
                               [a for a in arguments if a.requires_grad],
                               result_gradient)

  return call


def _operation(tolerance: Tolerance, name: str, function: _Function, *inputs:
               Make) -> Operation:
  return operation('gradients', tolerance, f'{name}_gradient',
                   _gradients(function), *inputs)


_compound = functools.partial(_operation, COMPOUND)
_exact = functools.partial(_operation, EXACT)
_proportion = functools.partial(_operation, PROPORTION)

# Gradients of layers, of functions and of losses.
#
# The last input is the gradient of the function's result, or is to be one.
OPERATIONS: tuple[Operation, ...] = (
    # Of products.
    _exact('matmul', torch.matmul, _whole(8, 16), _whole(16, 8), _whole(8, 8)),
    _exact('bmm', torch.bmm, _whole(8, 8, 4), _whole(8, 4, 8), _whole(8, 8, 8)),
    _exact('linear', F.linear, _whole(8, 16), _whole(24, 16), _whole(24),
           _whole(8, 24)),
    _exact('linear_uneven', F.linear, _whole(7, 9), _whole(5, 9), _whole(5),
           _whole(7, 5)),
    _exact('conv1d', F.conv1d, _whole(8, 8, 12), _whole(16, 8, 3), _whole(16),
           _whole(8, 16, 10)),
    _exact('conv2d', lambda x, w: F.conv2d(x, w, stride=2, padding=1),
           _whole(8, 8, 6, 6), _whole(16, 8, 3, 3), _whole(8, 16, 3, 3)),
    _exact('conv2d_groups', lambda x, w: F.conv2d(x, w, groups=2),
           _whole(8, 8, 5, 5), _whole(16, 4, 3, 3), _whole(8, 16, 3, 3)),
    _exact('conv_transpose2d', F.conv_transpose2d, _whole(8, 8, 4, 4),
           _whole(8, 8, 3, 3), _whole(8, 8, 6, 6)),
    _exact('mul_row', torch.mul, _whole(8, 16), _whole(16), _whole(8, 16)),
    # Of elements.
    _compound('gelu', F.gelu, *_PAIR),
    _compound('silu', F.silu, *_PAIR),
    _compound('tanh', torch.tanh, *_PAIR),
    _compound('sigmoid', torch.sigmoid, *_PAIR),
    _exact('relu', F.relu, *_PAIR),
    _compound('leaky_relu', F.leaky_relu, *_PAIR),
    _compound('div', torch.div, normal(8, 16), uniform(1, 4, 8, 16),
              normal(8, 16)),
    # Of rows.
    _proportion('softmax', lambda x: x.softmax(1), *_PAIR),
    _compound('log_softmax', lambda x: x.log_softmax(0), *_PAIR),
    _compound('softmax_uneven', lambda x: x.softmax(1), normal(7, 9),
              normal(7, 9)),
    _compound('layer_norm', lambda x, w, b: F.layer_norm(x, (16,), w, b),
              normal(8, 16), normal(16), normal(16), normal(8, 16)),
    _compound('batch_norm',
              lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
              normal(8, 8, 4, 4), normal(8), normal(8), normal(8, 8, 4, 4)),
    _compound('group_norm', lambda x, w, b: F.group_norm(x, 4, w, b),
              normal(8, 8, 4, 4), normal(8), normal(8), normal(8, 8, 4, 4)),
    _compound('logsumexp', lambda x: x.logsumexp(1), normal(8, 16), normal(8)),
    _compound('var', lambda x: x.var(1), normal(8, 16), normal(8)),
    _exact('cumsum', lambda x: x.cumsum(1), _whole(8, 16), _whole(8, 16)),
    # Of moves.
    _exact('embedding', F.embedding, indices(16, 8, 4), whole(16, 8),
           whole(8, 4, 8)),
    _exact('gather', lambda x, i: x.gather(1, i), whole(8, 16),
           indices(16, 8, 16), whole(8, 16)),
    _exact('index_select', lambda x, i: x.index_select(0, i), whole(8, 16),
           indices(8, 16), whole(16, 16)),
    _exact('slice', lambda x: x[::2, 3:11], _whole(8, 16), _whole(4, 8)),
    _exact('cat', lambda a, b: torch.cat((a, b), 1), _whole(8, 16),
           _whole(8, 8), _whole(8, 24)),
    _exact('max_pool2d', lambda x: F.max_pool2d(x, 2), *_POOLED),
    _exact('avg_pool2d', lambda x: F.avg_pool2d(x, 2), *_POOLED),
    _exact('amax', lambda x: x.amax(1), distinct(8, 16), whole(8)),
    # Of losses.
    _compound('cross_entropy', F.cross_entropy, normal(8, 16), indices(16, 8),
              _scalar_one),
    _compound('mse_loss', F.mse_loss, normal(8, 16), normal(8, 16), normal()),
    _compound('bce_with_logits', F.binary_cross_entropy_with_logits,
              normal(8, 16), uniform(0, 1, 8, 16), _scalar_one),
)
