"""The priority programs as StableHLO: same choices, collectives, numbers."""

from __future__ import annotations

import dataclasses

import programs
import pytest
from sections import Run, Seen
import torch
from torch_xla import _XLAC
import vendor

ENVIRONMENT = {}  # Beside the tests that need no child.


@dataclasses.dataclass(frozen=True)
class _Effect:
  """A run of a program, as a section."""
  number: int

  def __call__(self, on: Run) -> Seen:
    program, which = programs.RUNS[self.number]
    ran = programs.run(program, which)
    between = {
        opcode:
            programs.computed_shapes(ran.compiled, opcode,
                                     len(program.between[opcode]))
        for opcode in which.between
    }
    placement = _XLAC._get_xla_sharding_spec(ran.results[0])
    assert len(ran.results) == len(ran.expected)
    for result, expected in zip(ran.results, ran.expected):
      torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-4)
    return Seen(None, more=(between, placement))


@pytest.fixture(scope='module', name='ended')
def ended_fixture(
    request: pytest.FixtureRequest) -> dict[tuple[str, _Effect], vendor.Ended]:
  return vendor.run_asked(request)


pytestmark = pytest.mark.slow
_WAYS = ['XLA', 'XLA, converted', 'sdy', 'attributes', 'converted']
_IN_THE_WHOLE = {('sdy', 'add'), ('sdy', 'matmul'), ('sdy', 'loop'),
                 ('attributes', 'matmul')}


@pytest.mark.parametrize('way, section', [
    pytest.param(
        way,
        _Effect(number),
        id=f'{way}-{programs.RUN_IDS[number]}',
        marks=[pytest.mark.nightly] *
        ((way, program.name) not in _IN_THE_WHOLE))
    for way in _WAYS
    for number, (program, _) in enumerate(programs.RUNS)
])
def test_effect(way, section, ended):
  program, which = programs.RUNS[section.number]
  one = ended[way, section]
  between, placement = one.seen.more
  made, = [p for p in one.programs if p.asked]
  assert (made.partitioner, made.format) == ('shardy', 'mlir')
  assert made.form == vendor.form_of(way)
  assert (made.note, made.error) == ('', None)
  assert between == {
      opcode: {programs.local_shape(program.between[opcode], spec)}
      for opcode, spec in which.between.items()
  }
  assert placement == which.result
  moved = {
      kind.replace('-', '_'): nbytes
      for kind, (_, nbytes) in made.moved.items()
  }
  assert moved == which.collectives
