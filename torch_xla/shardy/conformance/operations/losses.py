"""Losses, with each of their reductions."""

from __future__ import annotations

import torch.nn.functional as F

from . import inputs
from .operation import Call, Inputs, Operation
from .tolerance import COMPOUND

_FAMILY = 'losses'
_SHAPE = (8, 16)


def operations() -> tuple[Operation, ...]:
  """Losses of classes, of numbers and of probabilities."""
  return (*_of_classes(), *_of_numbers(), *_of_probabilities())


def _operation(name: str, make: Inputs, call: Call) -> Operation:
  return Operation(name, _FAMILY, make, call, COMPOUND)


def _logits(rows: int, classes: int) -> Inputs:
  return lambda g: (inputs.normal(g, rows, classes),
                    inputs.indices(g, classes, rows))


def _pair(*shape: int) -> Inputs:
  return lambda g: (inputs.normal(g, *shape), inputs.normal(g, *shape))


def _of_classes() -> tuple[Operation, ...]:
  image = lambda g: (inputs.normal(g, 8, 8, 4), inputs.indices(g, 8, 8, 4))
  return (
      _operation('cross_entropy', _logits(*_SHAPE), F.cross_entropy),
      _operation('cross_entropy_none', _logits(*_SHAPE),
                 lambda x, y: F.cross_entropy(x, y, reduction='none')),
      _operation('cross_entropy_ignored', _logits(*_SHAPE),
                 lambda x, y: F.cross_entropy(x, y, ignore_index=3)),
      _operation('cross_entropy_smoothed', _logits(*_SHAPE),
                 lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1)),
      _operation('cross_entropy_uneven', _logits(7, 9), F.cross_entropy),
      _operation('cross_entropy_of_ratios', _pair(*_SHAPE),
                 lambda x, y: F.cross_entropy(x, y.softmax(1))),
      _operation('nll_loss', _logits(*_SHAPE),
                 lambda x, y: F.nll_loss(x.log_softmax(1), y)),
      _operation('nll_loss_rank_3', image,
                 lambda x, y: F.nll_loss(x.log_softmax(1), y, reduction='sum')),
  )


def _of_numbers() -> tuple[Operation, ...]:
  return (
      _operation('mse_loss', _pair(*_SHAPE), F.mse_loss),
      _operation('mse_loss_none', _pair(*_SHAPE),
                 lambda x, y: F.mse_loss(x, y, reduction='none')),
      _operation('mse_loss_uneven', _pair(7, 9), F.mse_loss),
      _operation('l1_loss', _pair(*_SHAPE), F.l1_loss),
      _operation('smooth_l1_loss', _pair(*_SHAPE), F.smooth_l1_loss),
      _operation('cosine_similarity', _pair(*_SHAPE), F.cosine_similarity),
  )


def _of_probabilities() -> tuple[Operation, ...]:
  ratios = lambda g: (inputs.between(g, 0.05, 0.95, *_SHAPE),
                      inputs.mask(g, *_SHAPE).float())
  logits = lambda g: (inputs.normal(g, *_SHAPE), inputs.mask(g, *_SHAPE).float(
  ))
  return (
      _operation('binary_cross_entropy', ratios, F.binary_cross_entropy),
      _operation('binary_cross_entropy_with_logits', logits,
                 F.binary_cross_entropy_with_logits),
      _operation(
          'kl_div', _pair(*_SHAPE), lambda x, y: F.kl_div(
              x.log_softmax(1), y.softmax(1), reduction='batchmean')),
      _operation(
          'kl_div_none', _pair(*_SHAPE), lambda x, y: F.kl_div(
              x.log_softmax(1), y.softmax(1), reduction='none')),
  )
