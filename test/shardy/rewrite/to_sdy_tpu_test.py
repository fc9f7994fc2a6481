"""The real TPU compiler makes of priorities what XLA:CPU makes of them."""

import dataclasses

import environments
import norms
import programs
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy.hlo import compiled_program
from torch_xla.shardy.hlo.compile_options import Partitioner

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


def test_tpu_loop_with_number():
  program = dataclasses.replace(
      programs.LOOP,
      compute=lambda t, mark: programs.loop_over(t, mark, lambda c: 2 * c))
  check_on_tpu(program, program.runs[1])


def test_layer_norm():
  """Forward and backward; split by the sequence, as on XLA:CPU."""
  xr.global_runtime_device_count()
  of_sequence = norms.LAYER_NORMS[1]
  which, = of_sequence.runs
  check_on_tpu(of_sequence, which)


def test_uneven_tensors_are_laid_out_as_they_are_stored(mesh):
  """Weights and their momentum, updated in place, and a batch of seven."""
  weight = torch.nn.Parameter(torch.randn(10, 6).to('xla'))
  batch = torch.randn(7, 6).to('xla')
  xs.mark_sharding(weight, mesh, (('x', 'y'), None), priority=(1, None))
  xs.mark_sharding(batch, mesh, ('y', None), priority=(0, None))
  optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
  for _ in range(2):
    torch_xla.sync(wait=True)
    with torch_xla.shardy.record() as recorded:
      optimizer.zero_grad()
      (batch @ weight.T).square().mean().backward()
      optimizer.step()
      torch_xla.sync(wait=True)
  program, = recorded
  assert program.partitioner is Partitioner.SHARDY
  made = topology.compile_for(TOPOLOGY, program.handed_on, shardy=True)
  compiled = compiled_program.read(made.as_serialized_hlo_module_proto(), 'hlo')
  stored = {
      t.parameter: t.placement
      for t in program.tensors
      if t.parameter is not None
  }
  assert len(stored) == len(compiled.parameters) >= 3
  assert {
      number: str(sharding)
      for number, sharding in enumerate(compiled.parameters)
  } == stored
  assert sum('devices=[8,1]' in placement for placement in stored.values()) == 2
