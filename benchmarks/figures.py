"""The figures: what is run, and what is made of it."""

import dataclasses
import os
from typing import Any, Callable, Dict, List, Tuple

from . import summary
from .processes import measure_in_turn, Samples
from .variants import Wheels

Say = Callable[[str], None]
Data = Dict[str, Any]

# XLA's CPU client takes its thread pool's size from here. The CPU device of our
# wheel sets it to 32 by default; without it there is a thread per core.
_POOL = 'NPROC'


@dataclasses.dataclass(frozen=True)
class Sizes:
  """How much is run.

  Attributes:
    layers: numbers of linear layers of the retrace loop.
    blocks: blocks of the demo model; its own default is 2.
    warm_up: steps before the timed ones.
    loop_steps: timed steps of the retrace loop in one process.
    demo_steps: timed steps of the demo model in one process.
    reads: timed reads of a sharded tensor in one process.
    read_size: rows and columns of that tensor.
    rounds: processes of each variant for the two loops.
  """
  layers: Tuple[int, ...] = (1, 24, 96)
  blocks: int = 2
  warm_up: int = 12
  loop_steps: int = 100
  demo_steps: int = 60
  reads: int = 60
  read_size: int = 1024
  rounds: int = 5


QUICK = Sizes(
    layers=(2,),
    blocks=1,
    warm_up=3,
    loop_steps=4,
    demo_steps=3,
    reads=3,
    read_size=16,
    rounds=1)


def _timed(samples: Samples) -> Data:
  """Wall time, and CPU time of all threads, which others' load moves less."""
  return {
      'samples': samples,
      'ms': summary.medians(samples, 'ms'),
      'over_official': summary.ratios(samples, 'ms', 'official'),
      'cpu_ms': summary.medians(samples, 'cpu_ms'),
      'cpu_over_official': summary.ratios(samples, 'cpu_ms', 'official'),
  }


def retrace(wheels: Wheels, sizes: Sizes, say: Say) -> List[Data]:
  """Figure 1: the loop of pytorch/xla#9755, for each number of layers."""
  variants = [wheels.official(), wheels.ours()]
  results = []
  for layers in sizes.layers:
    arguments = {
        'layers': layers,
        'warm_up': sizes.warm_up,
        'steps': sizes.loop_steps
    }
    samples = measure_in_turn('retrace_loop', arguments, variants, sizes.rounds,
                              say)
    result = _timed(samples)
    result.update(
        layers=layers,
        steps=samples['official'][0]['steps'],
        traces=summary.medians(samples, 'traces'),
        breakdown=summary.nested_medians(samples, 'breakdown'),
        metrics=summary.nested_medians(samples, 'metrics'),
        without_check=summary.spread(samples['ours'], 'without_check'),
        target=summary.verdict(
            result['over_official']['ours']['ratio'], 1.0, below=True))
    results.append(result)
  return results


def demo_step(wheels: Wheels, sizes: Sizes, say: Say) -> Data:
  """Figure 2: a training step of the demo model.

  The other columns explain: with `ours, off` only Python code differs from
  `official`, and with NPROC the size of the thread pool.
  """
  variants = [
      wheels.official(),
      wheels.ours('ours, shim', XLA_SHARDING_V2='1'),
      wheels.ours('ours, off'),
      wheels.ours(
          'ours, shim, NPROC=cores',
          XLA_SHARDING_V2='1',
          **{_POOL: str(os.cpu_count())}),
      wheels.official('official, NPROC=20', **{_POOL: '20'})
  ]
  arguments = {
      'blocks': sizes.blocks,
      'warm_up': sizes.warm_up,
      'steps': sizes.demo_steps
  }
  samples = measure_in_turn('demo_step', arguments, variants, sizes.rounds, say)
  result = _timed(samples)
  result.update(
      steps=sizes.demo_steps,
      breakdown=summary.nested_medians(samples, 'breakdown'),
      target=summary.verdict(result['over_official']['ours, shim']['ratio'],
                             1.05))
  return result


def read(wheels: Wheels, sizes: Sizes, say: Say) -> Data:
  """Figure 3: reads of one sharded tensor, over and over."""
  variants = [
      wheels.official(),
      wheels.ours('ours, Shardy', XLA_USE_SHARDY='1'),
      wheels.ours('ours, V2', XLA_SHARDING_V2='1')
  ]
  arguments = {
      'size': sizes.read_size,
      'warm_up': sizes.warm_up,
      'steps': sizes.reads
  }
  result = _timed(
      measure_in_turn('sharded_read', arguments, variants, sizes.rounds, say))
  result.update(
      target=summary.verdict(result['over_official']['ours, Shardy']['ratio'],
                             1.0))
  return result


FIGURES = {'retrace': retrace, 'demo-step': demo_step, 'read': read}
