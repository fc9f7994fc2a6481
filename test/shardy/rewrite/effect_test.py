"""Two priorities swapped: what Shardy does to the tensor in between flips."""

import re

import numpy as np
import programs
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
from torch_xla.shardy.hlo.compile_options import Partitioner
from torch_xla.shardy.sharding.text import parse_sharding

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


@pytest.mark.parametrize(
    'shape, spec, reshaped, tiles',
    [
        ((4, 8, 16), ('x', None, None), (32, 16), (2, 1)),
        ((32, 16), ('x', None), (4, 8, 16), (2, 1, 1)),
        # Eight parts of 32 rows are two of each of four.
        ((32, 16), (('x', 'y'), None), (4, 8, 16), (4, 2, 1)),
        ((4, 32), (None, 'y'), (4, 2, 16), (1, 2, 2)),
        # Half of each of four is no part of 32 rows: they are gathered.
        ((4, 8, 16), (None, 'x', None), (32, 16), None),
        ((4, 24), (None, 'y'), (4, 3, 8), None),
    ])
def test_a_split_dimension_through_a_reshape(shape, spec, reshaped, tiles,
                                             mesh):
  t = torch.arange(float(np.prod(shape))).reshape(shape)
  marked = t.to('xla')
  xs.mark_sharding(marked, mesh, spec)
  torch_xla.sync()
  out = (marked * 2).reshape(reshaped)
  with torch_xla.shardy.record() as seen:
    torch_xla.sync()
  placed = parse_sharding(torch_xla._XLAC._get_xla_sharding_spec(out))
  assert (placed.tiles and placed.tiles.dims[:len(reshaped)]) == tiles
  assert [c.kind for c in seen[0].collectives
         ] == ([] if tiles else ['all-gather'])
  assert torch.equal(out.cpu(), (t * 2).reshape(reshaped))
