"""Normalisation layers, in training and in use."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from . import inputs
from .operation import Call, Inputs, Operation
from .tolerance import COMPOUND, Tolerance

_FAMILY = 'normalisation'


def operations() -> tuple[Operation, ...]:
  """Each with weights, but for those that say so."""
  return (*_by_row(), *_by_channel())


def _operation(name: str,
               make: Inputs,
               call: Call,
               tolerance: Tolerance = COMPOUND) -> Operation:
  return Operation(name, _FAMILY, make, call, tolerance)


def _with_weights(shape: tuple[int, ...],
                  features: int,
                  dtype: torch.dtype = torch.float32) -> Inputs:
  """What is normalised, a weight and a bias."""
  return lambda g: (inputs.normal(g, *shape, dtype=dtype),
                    inputs.normal(g, features, dtype=dtype),
                    inputs.normal(g, features, dtype=dtype))


def _with_moments(g: torch.Generator) -> tuple[torch.Tensor, ...]:
  """What is normalised, a weight and a bias, a running mean and variance."""
  return (*_with_weights(
      (8, 8, 4, 4), 8)(g), inputs.normal(g, 8), inputs.between(g, 0.5, 2, 8))


def _by_row() -> tuple[Operation, ...]:
  layer = lambda x, w, b: F.layer_norm(x, w.shape, w, b)
  return (
      _operation('layer_norm', _with_weights((8, 16), 16), layer),
      _operation('layer_norm_rank_3', _with_weights((8, 8, 4), 4), layer),
      _operation('layer_norm_bfloat16',
                 _with_weights((8, 16), 16, torch.bfloat16), layer),
      _operation('layer_norm_uneven', _with_weights((7, 9), 9), layer),
      _operation('layer_norm_unweighted', lambda g: (inputs.normal(g, 8, 16),),
                 lambda x: F.layer_norm(x, (16,))),
      _operation('layer_norm_two_dims', lambda g: (inputs.normal(g, 8, 8, 4),),
                 lambda x: F.layer_norm(x, (8, 4))),
      _operation('rms_norm', lambda g:
                 (inputs.normal(g, 8, 16), inputs.normal(g, 16)),
                 lambda x, w: F.rms_norm(x, (16,), w)),
      _operation('normalize', lambda g: (inputs.normal(g, 8, 16),),
                 lambda x: F.normalize(x, dim=1)),
      _operation('normalize_uneven', lambda g: (inputs.normal(g, 7, 9),),
                 lambda x: F.normalize(x, dim=0)),
  )


def _by_channel() -> tuple[Operation, ...]:
  image = _with_weights((8, 8, 4, 4), 8)
  return (
      _operation(
          'batch_norm_training', image,
          lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True)),
      _operation(
          'batch_norm_training_uneven', _with_weights((7, 5, 3, 3), 5),
          lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True)),
      _operation('batch_norm_running', _with_moments, _batch_norm_running),
      _operation('batch_norm_eval', _with_moments,
                 lambda x, w, b, mean, var: F.batch_norm(x, mean, var, w, b)),
      _operation('group_norm', image, lambda x, w, b: F.group_norm(x, 4, w, b)),
      _operation('group_norm_uneven', _with_weights((7, 6, 3, 3), 6),
                 lambda x, w, b: F.group_norm(x, 3, w, b)),
      _operation('instance_norm', image,
                 lambda x, w, b: F.instance_norm(x, weight=w, bias=b)),
      _operation('local_response_norm', lambda g:
                 (inputs.normal(g, 8, 8, 4, 4),),
                 lambda x: F.local_response_norm(x, 3)),
  )


def _batch_norm_running(x: torch.Tensor, weight: torch.Tensor,
                        bias: torch.Tensor, mean: torch.Tensor,
                        variance: torch.Tensor) -> tuple[torch.Tensor, ...]:
  """Trains a batch norm, and returns its running mean too.

  The running variance is torch_xla's own: it does not correct it for the count.
  """
  mean = mean.clone()
  out = F.batch_norm(x, mean, variance.clone(), weight, bias, training=True)
  return out, mean
