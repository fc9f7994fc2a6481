"""Losses, with each of their reductions."""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F

from .inputs import uniform, indices, mask, normal, Inputs
from .operation import operation, Operation
from .tolerance import COMPOUND

_compound = functools.partial(operation, 'losses', COMPOUND)
_SHAPE = (8, 16)
_LOGITS: Inputs = (normal(*_SHAPE), indices(16, 8))
_PAIR: Inputs = (normal(*_SHAPE), normal(*_SHAPE))


def _labels(g: torch.Generator) -> torch.Tensor:
  return mask(*_SHAPE)(g).float()


# Losses of classes, of numbers and of probabilities.
OPERATIONS: tuple[Operation, ...] = (
    # Of classes.
    _compound('cross_entropy', F.cross_entropy, *_LOGITS),
    _compound('cross_entropy_none',
              lambda x, y: F.cross_entropy(x, y, reduction='none'), *_LOGITS),
    _compound('cross_entropy_ignored',
              lambda x, y: F.cross_entropy(x, y, ignore_index=3), *_LOGITS),
    _compound('cross_entropy_smoothed',
              lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1),
              *_LOGITS),
    _compound('cross_entropy_uneven', F.cross_entropy, normal(7, 9),
              indices(9, 7)),
    _compound('cross_entropy_of_ratios',
              lambda x, y: F.cross_entropy(x, y.softmax(1)), *_PAIR),
    _compound('nll_loss', lambda x, y: F.nll_loss(x.log_softmax(1), y),
              *_LOGITS),
    _compound('nll_loss_rank_3',
              lambda x, y: F.nll_loss(x.log_softmax(1), y, reduction='sum'),
              normal(8, 8, 4), indices(8, 8, 4)),
    # Of numbers.
    _compound('mse_loss', F.mse_loss, *_PAIR),
    _compound('mse_loss_none', lambda x, y: F.mse_loss(x, y, reduction='none'),
              *_PAIR),
    _compound('mse_loss_uneven', F.mse_loss, normal(7, 9), normal(7, 9)),
    _compound('l1_loss', F.l1_loss, *_PAIR),
    _compound('smooth_l1_loss', F.smooth_l1_loss, *_PAIR),
    _compound('cosine_similarity', F.cosine_similarity, *_PAIR),
    # Of probabilities.
    _compound('binary_cross_entropy', F.binary_cross_entropy,
              uniform(0.05, 0.95, *_SHAPE), _labels),
    _compound('binary_cross_entropy_with_logits',
              F.binary_cross_entropy_with_logits, normal(*_SHAPE), _labels),
    _compound(
        'kl_div', lambda x, y: F.kl_div(
            x.log_softmax(1), y.softmax(1), reduction='batchmean'), *_PAIR),
    _compound(
        'kl_div_none',
        lambda x, y: F.kl_div(x.log_softmax(1), y.softmax(1), reduction='none'),
        *_PAIR),
)
