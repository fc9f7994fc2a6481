"""Another build of Shardy, jaxlib's, makes of our MLIR what it makes of HLO.

What it is to make of each program is what sdy/judge_test has it make of the
program in HLO; each run differs from the one before by two priorities, swapped.
"""

import programs
import pytest
import torch_xla.runtime as xr
from torch_xla.shardy.stablehlo import dialects

pytest.importorskip('jaxlib', reason='needs jaxlib: its Shardy is the judge')
pytestmark = pytest.mark.slow

ENVIRONMENT = {**programs.ENVIRONMENT, 'XLA_STABLEHLO_COMPILE': '1'}
_PROPAGATE = 'builtin.module(sdy-propagation-pipeline)'


@pytest.fixture(scope='module', autouse=True)
def spmd_fixture():
  xr.use_spmd()


def _spec_of(operation):
  """The axes that each dimension of an operation's result got."""
  from jaxlib.mlir.dialects import sdy
  if 'sdy.sharding' not in operation.attributes:
    return (((),) * operation.results[0].type.rank)
  sharding, = sdy.TensorShardingPerValueAttr(
      operation.attributes['sdy.sharding']).shardings
  return tuple(
      tuple(
          sdy.AxisRefAttr(axis).name
          for axis in sdy.DimensionShardingAttr(dim).axes)
      for dim in sdy.TensorShardingAttr(sharding).dimension_shardings)


def _propagated(artifact: bytes, opcodes) -> dict[str, set]:
  """What jaxlib's Shardy gives the operations of each opcode."""
  from jaxlib.mlir import ir, passmanager
  specs = {opcode: set() for opcode in opcodes}

  def read(operation):
    opcode = operation.name.removeprefix('stablehlo.')
    if opcode in specs and operation.results[0].type.rank:
      specs[opcode].add(_spec_of(operation))
    return ir.WalkResult.ADVANCE

  module = dialects.read(artifact)
  with module.context:
    passmanager.PassManager.parse(_PROPAGATE).run(module.operation)
    module.operation.walk(read)
  return specs


@pytest.mark.parametrize('program, which', programs.JUDGED)
def test_judge(program, which):
  ran = programs.run(program, which)
  assert ran.record.form == 'sdy'
  assert 'sdy.mesh @mesh' in dialects.text(dialects.read(ran.record.handed_on))
  assert _propagated(ran.record.handed_on, program.between) == {
      opcode: {tuple(map(programs.axes_of, spec))}
      for opcode, spec in which.between.items()
  }
