"""The real TPU compiler makes of priorities what XLA:CPU makes of them."""

import dataclasses

import environments
import programs
import pytest

pytest.importorskip('libtpu', reason='needs libtpu, the TPU compiler')
topology = pytest.importorskip('benchmarks.topology')
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('spmd')]

ENVIRONMENT = {**environments.SHARDY, **environments.LIBTPU}
TOPOLOGY = 'v5e:2x4'
# What the TPU compiler makes of an operation that it has no use for: lookups
# in a small table become products with one-hot vectors.
TPU_OPCODES = {'gather': 'convolution'}


def check_on_tpu(program, which):
  ran = programs.run(program, which)
  compiled = topology.compile_for(
      TOPOLOGY, ran.record.handed_on, shardy=True).to_string()
  for opcode, spec in which.between.items():
    shape = program.between[opcode]
    assert programs.computed_shapes(compiled, TPU_OPCODES.get(
        opcode, opcode), len(shape)) == {programs.local_shape(shape, spec)}


@pytest.mark.parametrize('program, which', programs.JUDGED)
def test_tpu(program, which):
  check_on_tpu(program, which)


def loop_with_number(t, mark):
  """The loop of `programs`, with a number in it."""
  return programs.loop_over(t, mark, lambda carry: 2 * carry)


def test_tpu_loop_with_number():
  program = dataclasses.replace(programs.LOOP, compute=loop_with_number)
  check_on_tpu(program, program.runs[1])
