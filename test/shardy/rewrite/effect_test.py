"""Two priorities swapped: what Shardy does to the tensor in between flips."""

import re

import programs
import pytest
import torch
import torch_xla
from torch_xla.shardy.hlo.compile_options import Partitioner

pytest.importorskip('jaxlib', reason='needs jaxlib: XLA prints the programs')

ENVIRONMENT = programs.ENVIRONMENT
pytestmark = pytest.mark.usefixtures('spmd')


@pytest.mark.parametrize('program, which', programs.RUNS, ids=programs.RUN_IDS)
def test_effect(program, which):
  ran = programs.run(program, which)
  assert ran.record.partitioner is Partitioner.SHARDY
  assert ran.record.note == ''
  for opcode, spec in which.between.items():
    shape = program.between[opcode]
    assert programs.computed_shapes(ran.compiled, opcode, len(shape)) == {
        programs.local_shape(shape, spec)
    }
  placement = torch_xla._XLAC._get_xla_sharding_spec(ran.results[0])
  assert placement == which.result
  assert programs.moved(ran) == which.collectives
  assert len(ran.results) == len(ran.expected)
  for result, expected in zip(ran.results, ran.expected):
    torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    'program', programs.PROGRAMS, ids=[p.name for p in programs.PROGRAMS])
def test_nothing_differs_but_the_priorities(program):
  """The backend is handed the same program, and makes another one of it."""
  from jaxlib import _hlo
  handed_on, compiled = set(), set()
  for which in program.runs:
    ran = programs.run(program, which)
    text = _hlo.HloModule.from_serialized_hlo_module_proto(
        ran.record.handed_on).to_string()
    text, count = re.subn(r'\}p\d+', '}', text)
    assert count == len(which.priorities)
    handed_on.add(text)
    compiled.add(ran.compiled)
  assert len(handed_on) == 1
  assert len(compiled) == len(program.runs)
