"""The real TPU compiler lays uneven tensors out as they are stored."""

import numpy as np
import pytest
from to_sdy_tpu_test import ENVIRONMENT as _ENVIRONMENT, TOPOLOGY
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy.hlo import compiled_program
from torch_xla.shardy.hlo.compile_options import Partitioner

topology = pytest.importorskip('benchmarks.topology')
pytestmark = pytest.mark.slow
ENVIRONMENT = _ENVIRONMENT


def test_a_training_step():
  """Weights and their momentum, updated in place, and a batch of seven."""
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))
  weight = torch.nn.Parameter(torch.randn(10, 6).to('xla'))
  batch = torch.randn(7, 6).to('xla')
  xs.mark_sharding(weight, mesh, (('x', 'y'), None), priority=(1, None))
  xs.mark_sharding(batch, mesh, ('y', None), priority=(0, None))
  optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
  for _ in range(2):
    torch_xla.sync(wait=True)
    with torch_xla.shardy.record() as programs:
      optimizer.zero_grad()
      (batch @ weight.T).square().mean().backward()
      optimizer.step()
      torch_xla.sync(wait=True)
  program, = programs
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
