"""Gradients: what autograd makes of a function, and every input's."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from . import inputs
from .operation import Inputs, Operation
from .tolerance import COMPOUND, EXACT, PROPORTION, Tolerance

_FAMILY = 'gradients'
_Function = Callable[..., torch.Tensor]


def operations() -> tuple[Operation, ...]:
  """Gradients of layers, of functions and of losses.

  The last input is the gradient of the function's result, or is to be one.
  """
  return (*_of_products(), *_of_elements(), *_of_rows(), *_of_moves(),
          *_of_losses())


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


def _operation(name: str, make: Inputs, function: _Function,
               tolerance: Tolerance) -> Operation:
  return Operation(f'{name}_gradient', _FAMILY, make, _gradients(function),
                   tolerance)


def _whole(*shapes: tuple[int, ...]) -> Inputs:
  return lambda g: tuple(inputs.whole(g, *shape, largest=3) for shape in shapes)


def _normal(*shapes: tuple[int, ...]) -> Inputs:
  return lambda g: tuple(inputs.normal(g, *shape) for shape in shapes)


def _of_products() -> tuple[Operation, ...]:
  return (
      _operation('matmul', _whole((8, 16), (16, 8), (8, 8)), torch.matmul,
                 EXACT),
      _operation('bmm', _whole((8, 8, 4), (8, 4, 8), (8, 8, 8)), torch.bmm,
                 EXACT),
      _operation('linear', _whole((8, 16), (24, 16), (24,), (8, 24)), F.linear,
                 EXACT),
      _operation('linear_uneven', _whole((7, 9), (5, 9), (5,), (7, 5)),
                 F.linear, EXACT),
      _operation('conv1d', _whole((8, 8, 12), (16, 8, 3), (16,), (8, 16, 10)),
                 F.conv1d, EXACT),
      _operation('conv2d', _whole((8, 8, 6, 6), (16, 8, 3, 3), (8, 16, 3, 3)),
                 lambda x, w: F.conv2d(x, w, stride=2, padding=1), EXACT),
      _operation('conv2d_groups',
                 _whole((8, 8, 5, 5), (16, 4, 3, 3), (8, 16, 3, 3)),
                 lambda x, w: F.conv2d(x, w, groups=2), EXACT),
      _operation('conv_transpose2d',
                 _whole((8, 8, 4, 4), (8, 8, 3, 3), (8, 8, 6, 6)),
                 F.conv_transpose2d, EXACT),
      _operation('mul_row', _whole((8, 16), (16,), (8, 16)), torch.mul, EXACT),
  )


def _of_elements() -> tuple[Operation, ...]:
  pair = _normal((8, 16), (8, 16))
  return (
      _operation('gelu', pair, F.gelu, COMPOUND),
      _operation('silu', pair, F.silu, COMPOUND),
      _operation('tanh', pair, torch.tanh, COMPOUND),
      _operation('sigmoid', pair, torch.sigmoid, COMPOUND),
      _operation('relu', pair, F.relu, EXACT),
      _operation('leaky_relu', pair, F.leaky_relu, COMPOUND),
      _operation(
          'div', lambda g:
          (inputs.normal(g, 8, 16), inputs.between(g, 1, 4, 8, 16),
           inputs.normal(g, 8, 16)), torch.div, COMPOUND),
  )


def _of_rows() -> tuple[Operation, ...]:
  pair = _normal((8, 16), (8, 16))
  return (
      _operation('softmax', pair, lambda x: x.softmax(1), PROPORTION),
      _operation('log_softmax', pair, lambda x: x.log_softmax(0), COMPOUND),
      _operation('softmax_uneven', _normal((7, 9), (7, 9)),
                 lambda x: x.softmax(1), COMPOUND),
      _operation('layer_norm', _normal((8, 16), (16,), (16,), (8, 16)),
                 lambda x, w, b: F.layer_norm(x, (16,), w, b), COMPOUND),
      _operation(
          'batch_norm', _normal((8, 8, 4, 4), (8,), (8,), (8, 8, 4, 4)),
          lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
          COMPOUND),
      _operation('group_norm', _normal((8, 8, 4, 4), (8,), (8,), (8, 8, 4, 4)),
                 lambda x, w, b: F.group_norm(x, 4, w, b), COMPOUND),
      _operation('logsumexp', _normal((8, 16), (8,)), lambda x: x.logsumexp(1),
                 COMPOUND),
      _operation('var', _normal((8, 16), (8,)), lambda x: x.var(1), COMPOUND),
      _operation('cumsum', _whole((8, 16), (8, 16)), lambda x: x.cumsum(1),
                 EXACT),
  )


def _of_moves() -> tuple[Operation, ...]:
  lookup = lambda g: (inputs.indices(g, 16, 8, 4), inputs.whole(g, 16, 8),
                      inputs.whole(g, 8, 4, 8))
  gathered = lambda g: (inputs.whole(g, 8, 16), inputs.indices(g, 16, 8, 16),
                        inputs.whole(g, 8, 16))
  rows = lambda g: (inputs.whole(g, 8, 16), inputs.indices(g, 8, 16),
                    inputs.whole(g, 16, 16))
  images = lambda shape: lambda g: (inputs.distinct(g, 8, 8, 6, 6),
                                    inputs.whole(g, *shape))
  return (
      _operation('embedding', lookup, F.embedding, EXACT),
      _operation('gather', gathered, lambda x, i: x.gather(1, i), EXACT),
      _operation('index_select', rows, lambda x, i: x.index_select(0, i),
                 EXACT),
      _operation('slice', _whole((8, 16), (4, 8)), lambda x: x[::2, 3:11],
                 EXACT),
      _operation('cat', _whole((8, 16), (8, 8), (8, 24)),
                 lambda a, b: torch.cat((a, b), 1), EXACT),
      _operation('max_pool2d', images((8, 8, 3, 3)),
                 lambda x: F.max_pool2d(x, 2), EXACT),
      _operation('avg_pool2d', images((8, 8, 3, 3)),
                 lambda x: F.avg_pool2d(x, 2), EXACT),
      _operation('amax', lambda g:
                 (inputs.distinct(g, 8, 16), inputs.whole(g, 8)),
                 lambda x: x.amax(1), EXACT),
  )


def _of_losses() -> tuple[Operation, ...]:
  classes = lambda g: (inputs.normal(g, 8, 16), inputs.indices(g, 16, 8),
                       torch.ones(()))
  return (
      _operation('cross_entropy', classes, F.cross_entropy, COMPOUND),
      _operation('mse_loss', _normal((8, 16), (8, 16), ()), F.mse_loss,
                 COMPOUND),
      _operation(
          'bce_with_logits', lambda g:
          (inputs.normal(g, 8, 16), inputs.between(g, 0, 1, 8, 16),
           torch.ones(())), F.binary_cross_entropy_with_logits, COMPOUND),
  )
