"""Gradients, of every input; and operations that make tensors of numbers."""

from __future__ import annotations

from collections.abc import Callable
import functools

import torch
import torch.nn.functional as F

from .inputs import (DISTINCT, distinct, indices, Make, NORMAL, normal,
                     NORMAL_UNEVEN, uniform, WHOLE, whole, WHOLE_UNEVEN, Inputs)
from .operation import (approximated, each, exact, operation, same_bits,
                        Operation)
from ..comparison import COMPOUND, EXACT, PROPORTION, Tolerance

_Function = Callable[..., torch.Tensor]

_few = functools.partial(whole, largest=3)
_PAIR: Inputs = (NORMAL, NORMAL)
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


def _gradient(tolerance: Tolerance, name: str, function: _Function, *inputs:
              Make) -> Operation:
  return operation(tolerance, f'{name}_gradient', _gradients(function), *inputs)


_compound = functools.partial(_gradient, COMPOUND)
_exact = functools.partial(_gradient, EXACT)
_proportion = functools.partial(_gradient, PROPORTION)

# Gradients of layers, of functions and of losses.
#
# The last input is the gradient of the function's result, or is to be one.
GRADIENTS = (
    # Of products.
    _exact('matmul', torch.matmul, _few(8, 16), _few(16, 8), _few(8, 8)),
    _exact('bmm', torch.bmm, _few(8, 8, 4), _few(8, 4, 8), _few(8, 8, 8)),
    _exact('linear', F.linear, _few(8, 16), _few(24, 16), _few(24), _few(8,
                                                                         24)),
    _exact('linear_uneven', F.linear, _few(7, 9), _few(5, 9), _few(5),
           _few(7, 5)),
    _exact('conv1d', F.conv1d, _few(8, 8, 12), _few(16, 8, 3), _few(16),
           _few(8, 16, 10)),
    _exact('conv2d', lambda x, w: F.conv2d(x, w, stride=2, padding=1),
           _few(8, 8, 6, 6), _few(16, 8, 3, 3), _few(8, 16, 3, 3)),
    _exact('conv2d_groups', lambda x, w: F.conv2d(x, w, groups=2),
           _few(8, 8, 5, 5), _few(16, 4, 3, 3), _few(8, 16, 3, 3)),
    _exact('conv_transpose2d', F.conv_transpose2d, _few(8, 8, 4, 4),
           _few(8, 8, 3, 3), _few(8, 8, 6, 6)),
    _exact('mul_row', torch.mul, _few(8, 16), _few(16), _few(8, 16)),
    # Of elements.
    *each(_compound, F, 'gelu silu', *_PAIR),
    *each(_compound, torch, 'tanh sigmoid', *_PAIR),
    _exact('relu', F.relu, *_PAIR),
    _compound('leaky_relu', F.leaky_relu, *_PAIR),
    _compound('div', torch.div, NORMAL, uniform(1, 4, 8, 16), NORMAL),
    # Of rows.
    _proportion('softmax', lambda x: x.softmax(1), *_PAIR),
    _compound('log_softmax', lambda x: x.log_softmax(0), *_PAIR),
    _compound('softmax_uneven', lambda x: x.softmax(1), NORMAL_UNEVEN,
              NORMAL_UNEVEN),
    _compound('layer_norm', lambda x, w, b: F.layer_norm(x, (16,), w, b),
              NORMAL, normal(16), normal(16), NORMAL),
    _compound('batch_norm',
              lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
              normal(8, 8, 4, 4), normal(8), normal(8), normal(8, 8, 4, 4)),
    _compound('group_norm', lambda x, w, b: F.group_norm(x, 4, w, b),
              normal(8, 8, 4, 4), normal(8), normal(8), normal(8, 8, 4, 4)),
    _compound('logsumexp', lambda x: x.logsumexp(1), NORMAL, normal(8)),
    _compound('var', lambda x: x.var(1), NORMAL, normal(8)),
    _exact('cumsum', lambda x: x.cumsum(1), _few(8, 16), _few(8, 16)),
    # Of moves.
    _exact('embedding', F.embedding, indices(16, 8, 4), whole(16, 8),
           whole(8, 4, 8)),
    _exact('gather', lambda x, i: x.gather(1, i), WHOLE, indices(16, 8, 16),
           WHOLE),
    _exact('index_select', lambda x, i: x.index_select(0, i), WHOLE,
           indices(8, 16), whole(16, 16)),
    _exact('slice', lambda x: x[::2, 3:11], _few(8, 16), _few(4, 8)),
    _exact('cat', lambda a, b: torch.cat((a, b), 1), _few(8, 16), _few(8, 8),
           _few(8, 24)),
    _exact('max_pool2d', lambda x: F.max_pool2d(x, 2), *_POOLED),
    _exact('avg_pool2d', lambda x: F.avg_pool2d(x, 2), *_POOLED),
    _exact('amax', lambda x: x.amax(1), DISTINCT, whole(8)),
    # Of losses.
    _compound('cross_entropy', F.cross_entropy, NORMAL, indices(16, 8),
              _scalar_one),
    _compound('mse_loss', F.mse_loss, NORMAL, NORMAL, normal()),
    _compound('bce_with_logits', F.binary_cross_entropy_with_logits, NORMAL,
              uniform(0, 1, 8, 16), _scalar_one),
)

_INTS = whole(8, 16, dtype=torch.int64)

# Along each dimension of what they meet.
FACTORIES = (
    same_bits('arange', lambda x: x + torch.arange(16, device=x.device), _INTS),
    same_bits('arange_column',
              lambda x: x + torch.arange(8, device=x.device)[:, None], _INTS),
    exact('arange_step',
          lambda x: x + torch.arange(3, -13, -1, device=x.device), WHOLE),
    exact('arange_uneven', lambda x: x * torch.arange(9.0, device=x.device),
          WHOLE_UNEVEN),
    approximated('linspace',
                 lambda x: x + torch.linspace(-1, 2, 16, device=x.device),
                 WHOLE),
    exact('full', lambda x: x - torch.full((16,), 2.5, device=x.device), WHOLE),
    same_bits('zeros_like', torch.zeros_like, WHOLE),
    same_bits('ones_like', torch.ones_like, WHOLE_UNEVEN),
    same_bits('full_like_int', lambda x: torch.full_like(x, 2**40), _INTS),
    exact('eye', lambda x: x + torch.eye(8, device=x.device), whole(8, 8)),
    exact('eye_uneven', lambda x: x + torch.eye(7, 9, device=x.device),
          WHOLE_UNEVEN),
    same_bits('new_zeros', lambda x: torch.cat((x, x.new_zeros(3, 16))), WHOLE),
    exact('constant', lambda x: x * torch.tensor(
        (1.0, -2.0, 0.5, 4.0), device=x.device), whole(8, 4)),
)
