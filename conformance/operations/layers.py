"""Activations, normalisation, losses and pooling, as models have them."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .inputs import (distinct, indices, mask, NORMAL, normal, NORMAL_UNEVEN,
                     SHAPE, uniform, Inputs)
from .operation import (approximated, compound, each, exact, operation,
                        proportion, same_bits)
from ..comparison import COMPOUND, dtype_name, PROPORTION

# Each in float32; those of a transformer in 16 bits and uneven too.
ACTIVATIONS = (
    *each(exact, F, 'relu relu6 hardtanh', NORMAL),
    exact('threshold', lambda x: F.threshold(x, 0.5, -1.0), NORMAL),
    approximated('gelu', F.gelu, NORMAL),
    approximated('gelu_tanh', lambda x: F.gelu(x, approximate='tanh'), NORMAL),
    *each(approximated, F, 'silu mish elu', NORMAL),
    approximated('celu', lambda x: F.celu(x, 2.0), NORMAL),
    *each(
        approximated, F, 'selu leaky_relu softplus softsign logsigmoid '
        'hardsigmoid hardswish softshrink glu', NORMAL),
    proportion('softmax_dim_0', lambda x: x.softmax(0), NORMAL),
    proportion('softmax_dim_1', lambda x: x.softmax(1), NORMAL),
    # Of which no exponential is finite.
    proportion('softmax_of_large', lambda x: (x + 200).softmax(1), NORMAL),
    proportion('softmin', lambda x: F.softmin(x, 1), NORMAL),
    compound('log_softmax_dim_0', lambda x: x.log_softmax(0), NORMAL),
    compound('log_softmax_dim_1', lambda x: x.log_softmax(1), NORMAL),
    *(operation(tolerance, f'{name}_{dtype_name(dtype)}', function,
                normal(8, 16, dtype=dtype))
      for tolerance, name, function in (
          (COMPOUND, 'gelu', F.gelu), (COMPOUND, 'silu', F.silu),
          (PROPORTION, 'softmax', lambda x: x.softmax(1)))
      for dtype in (torch.bfloat16, torch.float16)),
    proportion('softmax_uneven_dim_0', lambda x: x.softmax(0), NORMAL_UNEVEN),
    proportion('softmax_uneven_dim_1', lambda x: x.softmax(1), NORMAL_UNEVEN),
    compound('prelu', F.prelu, normal(8, 8, 4), normal(8)),
)


def _with_weights(*shape: int,
                  features: int,
                  dtype: torch.dtype = torch.float32) -> Inputs:
  """An input, a weight and a bias."""
  weight = normal(features, dtype=dtype)
  return normal(*shape, dtype=dtype), weight, weight


_WITH_CHANNELS = _with_weights(8, 8, 4, 4, features=8)
# With a running mean and variance.
_WITH_MOMENTS: Inputs = (*_WITH_CHANNELS, normal(8), uniform(0.5, 2, 8))


def _layer(x: torch.Tensor, weight: torch.Tensor,
           bias: torch.Tensor) -> torch.Tensor:
  return F.layer_norm(x, weight.shape, weight, bias)


def _training(x: torch.Tensor, weight: torch.Tensor,
              bias: torch.Tensor) -> torch.Tensor:
  return F.batch_norm(x, None, None, weight, bias, training=True)


def _batch_norm_running(x: torch.Tensor, weight: torch.Tensor,
                        bias: torch.Tensor, mean: torch.Tensor,
                        variance: torch.Tensor) -> tuple[torch.Tensor, ...]:
  """Trains a batch norm, and returns its running mean too.

  The running variance is torch_xla's own: it does not correct it for the count.
  """
  mean = mean.clone()
  out = F.batch_norm(x, mean, variance.clone(), weight, bias, training=True)
  return out, mean


# Each with weights, but for those that say so.
NORMALISATION = (
    # By row.
    compound('layer_norm', _layer, *_with_weights(8, 16, features=16)),
    compound('layer_norm_rank_3', _layer, *_with_weights(8, 8, 4, features=4)),
    compound('layer_norm_bfloat16', _layer,
             *_with_weights(8, 16, features=16, dtype=torch.bfloat16)),
    compound('layer_norm_uneven', _layer, *_with_weights(7, 9, features=9)),
    compound('layer_norm_unweighted', lambda x: F.layer_norm(x, (16,)), NORMAL),
    compound('layer_norm_two_dims', lambda x: F.layer_norm(x, (8, 4)),
             normal(8, 8, 4)),
    compound('rms_norm', lambda x, w: F.rms_norm(x, (16,), w), NORMAL,
             normal(16)),
    compound('normalize', lambda x: F.normalize(x, dim=1), NORMAL),
    compound('normalize_uneven', lambda x: F.normalize(x, dim=0), normal(7, 9)),
    # By channel.
    compound('batch_norm_training', _training, *_WITH_CHANNELS),
    compound('batch_norm_training_uneven', _training,
             *_with_weights(7, 5, 3, 3, features=5)),
    compound('batch_norm_running', _batch_norm_running, *_WITH_MOMENTS),
    compound('batch_norm_eval',
             lambda x, w, b, mean, var: F.batch_norm(x, mean, var, w, b),
             *_WITH_MOMENTS),
    compound('group_norm', lambda x, w, b: F.group_norm(x, 4, w, b),
             *_WITH_CHANNELS),
    compound('group_norm_uneven', lambda x, w, b: F.group_norm(x, 3, w, b),
             *_with_weights(7, 6, 3, 3, features=6)),
    compound('instance_norm',
             lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
             *_WITH_CHANNELS),
    compound('local_response_norm', lambda x: F.local_response_norm(x, 3),
             normal(8, 8, 4, 4)),
)

_LOGITS: Inputs = (NORMAL, indices(16, 8))
_PAIR: Inputs = (NORMAL, NORMAL)


def _labels(g: torch.Generator) -> torch.Tensor:
  return mask(*SHAPE)(g).float()


# Losses of classes, of numbers and of probabilities.
LOSSES = (
    # Of classes.
    compound('cross_entropy', F.cross_entropy, *_LOGITS),
    compound('cross_entropy_none',
             lambda x, y: F.cross_entropy(x, y, reduction='none'), *_LOGITS),
    compound('cross_entropy_ignored',
             lambda x, y: F.cross_entropy(x, y, ignore_index=3), *_LOGITS),
    compound('cross_entropy_smoothed',
             lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), *_LOGITS),
    compound('cross_entropy_uneven', F.cross_entropy, NORMAL_UNEVEN,
             indices(9, 7)),
    compound('cross_entropy_of_ratios',
             lambda x, y: F.cross_entropy(x, y.softmax(1)), *_PAIR),
    compound('nll_loss', lambda x, y: F.nll_loss(x.log_softmax(1), y),
             *_LOGITS),
    compound('nll_loss_rank_3',
             lambda x, y: F.nll_loss(x.log_softmax(1), y, reduction='sum'),
             normal(8, 8, 4), indices(8, 8, 4)),
    # Of numbers.
    compound('mse_loss', F.mse_loss, *_PAIR),
    compound('mse_loss_none', lambda x, y: F.mse_loss(x, y, reduction='none'),
             *_PAIR),
    compound('mse_loss_uneven', F.mse_loss, NORMAL_UNEVEN, NORMAL_UNEVEN),
    compound('l1_loss', F.l1_loss, *_PAIR),
    compound('smooth_l1_loss', F.smooth_l1_loss, *_PAIR),
    compound('cosine_similarity', F.cosine_similarity, *_PAIR),
    # Of probabilities.
    compound('binary_cross_entropy', F.binary_cross_entropy,
             uniform(0.05, 0.95, *SHAPE), _labels),
    compound('binary_cross_entropy_with_logits',
             F.binary_cross_entropy_with_logits, NORMAL, _labels),
    compound(
        'kl_div', lambda x, y: F.kl_div(
            x.log_softmax(1), y.softmax(1), reduction='batchmean'), *_PAIR),
    compound(
        'kl_div_none',
        lambda x, y: F.kl_div(x.log_softmax(1), y.softmax(1), reduction='none'),
        *_PAIR),
)

_IMAGE = distinct(8, 8, 6, 6)
_ODD_IMAGE = distinct(3, 5, 7, 7)

# Over windows of one to three dimensions, and of a fixed count.
POOLING = (
    # Largest.
    same_bits('max_pool1d', lambda x: F.max_pool1d(x, 2), distinct(8, 8, 12)),
    same_bits('max_pool2d', lambda x: F.max_pool2d(x, 2), _IMAGE),
    same_bits('max_pool2d_overlapping',
              lambda x: F.max_pool2d(x, 3, stride=2, padding=1), _IMAGE),
    same_bits('max_pool2d_with_indices',
              lambda x: F.max_pool2d(x, 2, return_indices=True), _IMAGE),
    # Below zero: what pads a window must not be the largest.
    same_bits('max_pool2d_uneven',
              lambda x: F.max_pool2d(x, 3, stride=2, padding=1),
              lambda g: _ODD_IMAGE(g) - 1000),
    same_bits('max_pool3d', lambda x: F.max_pool3d(x, 2),
              distinct(8, 8, 4, 4, 2)),
    same_bits('adaptive_max_pool2d', lambda x: F.adaptive_max_pool2d(x, 3),
              _IMAGE),
    # Average.
    approximated('avg_pool1d', lambda x: F.avg_pool1d(x, 2), distinct(8, 8,
                                                                      12)),
    approximated('avg_pool2d', lambda x: F.avg_pool2d(x, 2), _IMAGE),
    approximated('avg_pool2d_padding',
                 lambda x: F.avg_pool2d(x, 3, stride=2, padding=1), _IMAGE),
    approximated('avg_pool2d_not_counted',
                 lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
                 _ODD_IMAGE),
    approximated('adaptive_avg_pool2d', lambda x: F.adaptive_avg_pool2d(x, 3),
                 _IMAGE),
    approximated('adaptive_avg_pool2d_one',
                 lambda x: F.adaptive_avg_pool2d(x, 1), _IMAGE),
    # Resampled.
    same_bits('upsample_nearest',
              lambda x: F.interpolate(x, scale_factor=2, mode='nearest'),
              distinct(8, 8, 3, 3)),
    approximated(
        'upsample_bilinear', lambda x: F.interpolate(
            x, size=(6, 6), mode='bilinear', align_corners=False),
        distinct(8, 8, 3, 3)),
    approximated(
        'upsample_bilinear_corners', lambda x: F.interpolate(
            x, size=(5, 5), mode='bilinear', align_corners=True),
        distinct(8, 8, 3, 3)),
)
