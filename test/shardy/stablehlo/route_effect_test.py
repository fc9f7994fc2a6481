"""The priority programs, as StableHLO: same choices, collectives, numbers."""

import programs
import pytest
import torch
import torch_xla
import torch_xla.runtime as xr
from torch_xla.shardy.hlo.compile_options import Partitioner

ENVIRONMENT = {**programs.ENVIRONMENT, 'XLA_STABLEHLO_COMPILE': '1'}


@pytest.fixture(scope='module', autouse=True)
def spmd_fixture():
  xr.use_spmd()


@pytest.mark.parametrize('program, which', programs.RUNS, ids=programs.RUN_IDS)
def test_effect(program, which):
  ran = programs.run(program, which)
  assert ran.record.partitioner is Partitioner.SHARDY
  assert ran.record.note == ''
  assert ran.record.format == 'mlir'
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
