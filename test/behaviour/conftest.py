"""What the tests of behaviours share; see `torch_xla_form`."""

import collections

import pytest

for _module in ('marks', 'placements'):
  pytest.register_assert_rewrite(_module)


@pytest.fixture(name='mesh')
def mesh_fixture():
  """A mesh of two by four devices, with axes x and y."""
  # Not before a test runs: a process that only collects has no runtime.
  import numpy as np
  import torch_xla.distributed.spmd as xs
  import torch_xla.runtime as xr
  xr.use_spmd()
  return xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))


@pytest.fixture(name='traces')
def traces_fixture(monkeypatch) -> collections.Counter:
  """Counts the traces of compiled graphs, under the key 'n'."""
  import torch
  from torch_xla._dynamo import dynamo_bridge
  torch._dynamo.reset()
  counter, trace = collections.Counter(), dynamo_bridge.extract_graph_helper

  def counted(*args):
    counter['n'] += 1
    return trace(*args)

  monkeypatch.setattr(dynamo_bridge, 'extract_graph_helper', counted)
  return counter
