"""Normalisations in programs, and how Shardy has to place what is around them.

Each is between two operations that tell in the compiled program where its
operand and its result are: `sin(norm(tanh(x)))`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from programs import (computed_shapes, Input, local_shape, moved, Program, run,
                      Run, Spec, Tensors)
import torch
import torch.nn.functional as F
import torch_xla
from torch_xla.shardy.compile.record import ProgramRecord
from torch_xla.shardy.hlo.compile_options import Partitioner

_SMALL = (8, 4, 16)
_IMAGE = (8, 8, 4, 4)
_ROWS = '{devices=[2,1,1,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}'
_SEQUENCE = '{devices=[1,4,1,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}'
_FEATURES = '{devices=[1,1,4,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}'
_SPLIT = ('x', 'y', None, None)
_CHANNELS = '{devices=[2,4,1,1]0,1,2,3,4,5,6,7}'


def _around(norm: Callable[[torch.Tensor, Tensors], torch.Tensor]) -> Callable:

  def compute(t: Tensors, mark: Callable) -> tuple[torch.Tensor, ...]:
    del mark
    return (torch.sin(norm(torch.tanh(t['x']), t)),)

  return compute


def _program(name: str,
             shape: tuple[int, ...],
             spec: Spec,
             features: int,
             norm: Callable,
             result: str,
             collectives: Mapping[str, int],
             gradients: bool = True) -> Program:
  """A program with one run, that splits x by `spec`.

  Args:
    features: the size of the weight and the bias; 0 without.
  """
  inputs = {'x': Input(shape, spec)}
  if features:
    inputs.update(
        weight=Input((features,), (None,)), bias=Input((features,), (None,)))
  run = Run(dict(x=0), dict(tanh=spec, sine=spec), result, collectives)
  return Program(
      name,
      inputs,
      _around(norm),
      dict(tanh=shape, sine=shape),
      runs=(run,),
      gradients=gradients)


def _layer_norm(x: torch.Tensor, t: Tensors) -> torch.Tensor:
  return F.layer_norm(x, (16,), t['weight'], t['bias'])


def _group_norm(x: torch.Tensor, t: Tensors) -> torch.Tensor:
  return F.group_norm(x, 4, t['weight'], t['bias'])


def _instance_norm(x: torch.Tensor, t: Tensors) -> torch.Tensor:
  del t
  return F.instance_norm(x)


def _batch_norm(x: torch.Tensor, t: Tensors) -> torch.Tensor:
  return F.batch_norm(x, None, None, t['weight'], t['bias'], training=True)


def _batch_norm_in_evaluation(x: torch.Tensor, t: Tensors) -> torch.Tensor:
  # The weight's squares are a variance as good as any.
  return F.batch_norm(x, t['bias'], t['weight'].square(), t['weight'],
                      t['bias'])


# By rows and by the sequence the gradients of weight and bias are added up, 16
# numbers each. _XLAC recovers the variance of each of the 32 rows of [batch *
# sequence], which a split of the sequence alone does not pass: it is gathered.
# By features two sums of rows are added up forward, and two backward.
LAYER_NORMS = (
    _program('layer_norm_rows', _SMALL, ('x', None, None), 16, _layer_norm,
             _ROWS, dict(all_reduce=2 * 16 * 4)),
    _program('layer_norm_sequence', _SMALL, (None, 'y', None), 16, _layer_norm,
             _SEQUENCE, dict(all_reduce=2 * 16 * 4, all_gather=32 * 4)),
    _program('layer_norm_features', _SMALL, (None, None, 'y'), 16, _layer_norm,
             _FEATURES, dict(all_reduce=4 * 32 * 4)),
)

# Split by channels, and so by groups. Each device has the weight of 2 channels;
# variances, of 8 * 4 groups or 8 * 8 channels, stay split by x.
OTHERS = (
    _program('group_norm', _IMAGE, _SPLIT, 8, _group_norm, _CHANNELS,
             dict(all_reduce=2 * 2 * 4, all_gather=8 * 4 // 2 * 4)),
    _program('instance_norm', _IMAGE, _SPLIT, 0, _instance_norm, _CHANNELS,
             dict(all_gather=8 * 8 // 2 * 4)),
    _program('batch_norm', _IMAGE, _SPLIT, 8, _batch_norm, _CHANNELS,
             dict(all_reduce=4 * 2 * 4)),
    _program(
        'batch_norm_in_evaluation',
        _IMAGE,
        _SPLIT,
        8,
        _batch_norm_in_evaluation,
        _CHANNELS, {},
        gradients=False),
)


def _normalised_product(t: Tensors, mark: Callable) -> tuple[torch.Tensor, ...]:
  del mark
  return (F.layer_norm(torch.tanh(t['x']), (16,)) @ t['w'],)


# Axis y is to split the batch or the features of x. What w wants comes to x by
# way of the normalisation: then two sums of rows are added up, and the product.
CONTENDED = Program(
    'contended',
    dict(x=Input(_SMALL, ('y', None, None)), w=Input((16, 8), ('y', None))),
    _normalised_product,
    dict(tanh=_SMALL),
    runs=(Run(
        dict(x=0, w=1), dict(tanh=('y', None, None)),
        '{devices=[4,1,1,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}',
        dict(all_gather=16 * 8 * 4)),
          Run(
              dict(x=1, w=0), dict(tanh=(None, None, 'y')), '{replicated}',
              dict(
                  all_to_all=8 * 4 * 16 // 4 * 4,
                  all_reduce=2 * 32 * 4 + 32 * 8 * 4))))

PROGRAMS = (*LAYER_NORMS, *OTHERS, CONTENDED)
RUNS = [(program, which) for program in PROGRAMS for which in program.runs]
RUN_IDS = [
    f'{program.name} '
    f'{" ".join(f"{name}={p}" for name, p in which.priorities.items())}'
    for program, which in RUNS
]


def check(program: Program, which: Run) -> ProgramRecord:
  """Runs a program; placements, collectives and numbers are as they have to be.

  Returns:
    The record of it.
  """
  ran = run(program, which)
  assert ran.record.partitioner is Partitioner.SHARDY
  assert ran.record.note == ''
  for opcode, spec in which.between.items():
    shape = program.between[opcode]
    assert computed_shapes(ran.compiled, opcode,
                           len(shape)) == {local_shape(shape, spec)}
  placement = torch_xla._XLAC._get_xla_sharding_spec(ran.results[0])
  assert placement == which.result
  assert moved(ran) == which.collectives
  assert len(ran.results) == len(ran.expected)
  for result, expected in zip(ran.results, ran.expected):
    torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-4)
  return ran.record
