"""`torch_xla.shardy.reset()` lets go of what compiled functions hold."""

import gc
import weakref

import environments
import pytest
import torch
import torch_xla
from torch_xla._dynamo import dynamo_bridge
import torch_xla.runtime as xr

ENVIRONMENT = environments.V2


@pytest.fixture(name='traces')
def traces_fixture(monkeypatch) -> list[int]:
  """Gets an item for each trace."""
  traces = []
  trace = dynamo_bridge.extract_graph_helper
  monkeypatch.setattr(dynamo_bridge, 'extract_graph_helper',
                      lambda *args: traces.append(1) or trace(*args))
  return traces


def test_a_dropped_models_weight_goes_and_functions_compile_again(traces):
  xr.use_spmd()
  model = torch.nn.Linear(8, 8).to('xla')
  model.itself = [model]  # Which torch._dynamo.reset() alone leaves alive.
  double = torch.compile(lambda x: x * 2, backend='openxla')
  x = torch.ones(8).to('xla')
  torch.compile(model, backend='openxla')(x)
  double(x)
  weight = weakref.ref(model.weight)
  gc.disable()
  try:
    del model
    torch._dynamo.reset()
    assert weight() is not None
    torch_xla.shardy.reset()
    assert weight() is None
  finally:
    gc.enable()
  assert len(traces) == 2
  assert double(x).tolist() == [2.] * 8
  assert len(traces) == 3
