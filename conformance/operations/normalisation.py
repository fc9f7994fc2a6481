"""Normalisation layers, in training and in use."""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F

from .inputs import uniform, normal, Inputs
from .operation import operation, Operation
from .tolerance import COMPOUND

_compound = functools.partial(operation, 'normalisation', COMPOUND)


def _with_weights(*shape: int,
                  features: int,
                  dtype: torch.dtype = torch.float32) -> Inputs:
  """An input, a weight and a bias."""
  weight = normal(features, dtype=dtype)
  return normal(*shape, dtype=dtype), weight, weight


_IMAGE = _with_weights(8, 8, 4, 4, features=8)
# With a running mean and variance.
_WITH_MOMENTS: Inputs = (*_IMAGE, normal(8), uniform(0.5, 2, 8))


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
OPERATIONS: tuple[Operation, ...] = (
    # By row.
    _compound('layer_norm', _layer, *_with_weights(8, 16, features=16)),
    _compound('layer_norm_rank_3', _layer, *_with_weights(8, 8, 4, features=4)),
    _compound('layer_norm_bfloat16', _layer,
              *_with_weights(8, 16, features=16, dtype=torch.bfloat16)),
    _compound('layer_norm_uneven', _layer, *_with_weights(7, 9, features=9)),
    _compound('layer_norm_unweighted', lambda x: F.layer_norm(x, (16,)),
              normal(8, 16)),
    _compound('layer_norm_two_dims', lambda x: F.layer_norm(x, (8, 4)),
              normal(8, 8, 4)),
    _compound('rms_norm', lambda x, w: F.rms_norm(x, (16,), w), normal(8, 16),
              normal(16)),
    _compound('normalize', lambda x: F.normalize(x, dim=1), normal(8, 16)),
    _compound('normalize_uneven', lambda x: F.normalize(x, dim=0), normal(7,
                                                                          9)),
    # By channel.
    _compound('batch_norm_training', _training, *_IMAGE),
    _compound('batch_norm_training_uneven', _training,
              *_with_weights(7, 5, 3, 3, features=5)),
    _compound('batch_norm_running', _batch_norm_running, *_WITH_MOMENTS),
    _compound('batch_norm_eval',
              lambda x, w, b, mean, var: F.batch_norm(x, mean, var, w, b),
              *_WITH_MOMENTS),
    _compound('group_norm', lambda x, w, b: F.group_norm(x, 4, w, b), *_IMAGE),
    _compound('group_norm_uneven', lambda x, w, b: F.group_norm(x, 3, w, b),
              *_with_weights(7, 6, 3, 3, features=6)),
    _compound('instance_norm',
              lambda x, w, b: F.instance_norm(x, weight=w, bias=b), *_IMAGE),
    _compound('local_response_norm', lambda x: F.local_response_norm(x, 3),
              normal(8, 8, 4, 4)),
)
