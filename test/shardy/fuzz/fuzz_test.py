"""Random programs over eight devices, against torch.

Here runs a slice; `python -m benchmarks.fuzz` runs as many as it is asked to,
and prints the program of each failure.
"""

from __future__ import annotations

import os

import fuzz_batches as batches
from program_runs import Outcome, reason_of, Status
import properties
import pytest
import random_chains
from random_programs import make

ENVIRONMENT = {}  # Beside the tests that need no child.
# How the reasons begin why GSPMD may partition a program.
_ALLOWED_FALLBACKS = (
    # Two meshes, the devices of each in another order.
    'Shardy cannot be told of the sharding .. over ..',)


def _failures(found: list[Outcome]) -> list[str]:
  """What fails with Shardy alone, with the programs."""
  alone = batches.without_shardy(found)
  return [
      f'{make(o.seed)}\n{o.status.value}: {o.detail}' for o in found
      if o.failed and alone[o.seed].status is not o.status
  ]


def _break_sums() -> None:
  """Has the lowering say `subtract` for each sum."""
  from torch_xla.shardy.rewrite import to_sdy
  lower = to_sdy.lower_shardings

  def broken(module, *arguments):
    for computation in module.computations:
      if computation.id == module.entry_computation_id:
        for instruction in computation.instructions:
          if instruction.opcode == 'add':
            instruction.opcode = 'subtract'
    return lower(module, *arguments)

  to_sdy.lower_shardings = broken


def _end_process() -> None:
  from torch_xla.shardy.rewrite import to_sdy
  to_sdy.lower_shardings = lambda *arguments: os.abort()


@pytest.mark.slow
def test_programs():
  count = properties.examples(60).max_examples
  found = list(batches.of_seeds(range(count)))
  assert [o.seed for o in found] == list(range(count))
  assert not _failures(found)
  ran = [o for o in found if o.status is Status.OK]
  assert len(ran) >= 0.8 * count
  by_shardy = [o for o in ran if 'shardy' in o.partitioners]
  assert len(by_shardy) >= 0.8 * len(ran)
  reasons = batches.fallbacks(found)
  assert not [r for r in reasons if not r.startswith(_ALLOWED_FALLBACKS)]


@pytest.mark.parametrize('count', [
    pytest.param(1, marks=pytest.mark.slow),
    pytest.param(200, marks=pytest.mark.nightly),
])
def test_chains(count):
  """Of convolutions and norms, on meshes in any order."""
  found = list(batches.of_seeds(range(count), random_chains.make))
  assert not [o for o in found if o.failed]
  assert len([o for o in found if o.status is Status.OK]) >= 0.8 * count


@pytest.mark.nightly
def test_a_wrong_number_is_found():
  seeds = [s for s in range(40) if ' + ' in str(make(s))][:4]
  found = list(batches.of_seeds(seeds, spoil=_break_sums))
  wrong = [o for o in found if o.status is Status.WRONG]
  assert wrong and {o.seed for o in wrong} <= set(seeds)
  assert 'differ, by' in wrong[0].detail


def test_a_process_that_ends_is_a_finding():
  found = list(batches.of_seeds([3, 4], spoil=_end_process))
  assert [(o.seed, o.status) for o in found] == [(3, Status.DIED),
                                                 (4, Status.DIED)]
  assert 'exit status -6' in found[0].detail


def test_programs_are_various():
  text = '\n'.join(str(make(seed)) for seed in range(300))
  for word in ('bfloat16', 'float64', 'int8', 'backward', 'update(', 'F.linear',
               'layer_norm', 'gather', 'index_put', 'embedding', 'cumsum',
               'torch.sort', 'where', 'torch.cat', 'einsum', 'softmax', 'conv',
               'scaled_dot_product_attention', 'mark(', 'None)  # unmarked',
               'add_(', '[0] =', '.to(torch.bfloat16)', 'to(torch.float64)'):
    assert word.removesuffix(')  # unmarked') in text, word
  ranks = {len(i.shape) for s in range(300) for i in make(s).inputs}
  assert ranks == {1, 2, 3, 4, 5}
  axes = {len(m.shape) for s in range(300) for m in make(s).meshes}
  assert axes == {1, 2, 3, 4}


@pytest.mark.parametrize('note, reason', [
    ('parameter 12 (up.weight), bf16[3], is stored as {devices=[8]0,1,2,3} and '
     'Shardy takes it as {replicated}: GSPMD partitions',
     'parameter N, .., is stored as .. and Shardy takes it as ..: GSPMD '
     'partitions'),
    ('Shardy cannot be told of the sharding {devices=[4,2]<=[8]} over '
     '#sdy.mesh<["a"=4, "b"=2], device_ids=[0, 1]>: GSPMD partitions',
     'Shardy cannot be told of the sharding .. over ..: GSPMD partitions'),
])
def test_like_reasons_are_one(note, reason):
  assert reason_of(note) == reason
