"""The real TPU compiler makes of priorities what XLA:CPU makes of them."""

import dataclasses

import programs
import pytest
import torch_xla.runtime as xr

pytest.importorskip('libtpu', reason='needs libtpu, the TPU compiler')
topology = pytest.importorskip('benchmarks.topology')
pytestmark = pytest.mark.slow

ENVIRONMENT = {
    **programs.ENVIRONMENT,
    'TPU_SKIP_MDS_QUERY': '1',
    'JAX_PLATFORMS': 'cpu',
    # Another process may be compiling for TPUs at the same time.
    'ALLOW_MULTIPLE_LIBTPU_LOAD': '1',
}
TOPOLOGY = 'v5e:2x4'
# What the TPU compiler makes of an operation that it has no use for: lookups
# in a small table become products with one-hot vectors.
TPU_OPCODES = {'gather': 'convolution'}


@pytest.fixture(scope='module', autouse=True)
def spmd_fixture():
  xr.use_spmd()


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
