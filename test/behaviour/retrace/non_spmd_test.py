"""Without SPMD, compiled graphs are traced and fed as in the official wheel."""

from kinds import assert_right
import torch
import torch_xla
from torch_xla._dynamo import dynamo_bridge
import torch_xla.debug.metrics as met
import torch_xla.runtime as xr

ENVIRONMENT = {'PJRT_DEVICE': 'CPU'}
STEPS = 4


def test_traces_once_and_asks_for_no_sharding(monkeypatch):
  traces, trace = [], dynamo_bridge.extract_graph_helper
  monkeypatch.setattr(dynamo_bridge, 'extract_graph_helper',
                      lambda *args: traces.append(args) or trace(*args))
  assert not xr.is_spmd()
  f = torch.compile(lambda a, b: a @ b + 1, backend='openxla')
  for _ in range(STEPS):
    a, b = torch.randn(4, 4), torch.randn(4, 4)
    assert_right(f(a.to('xla'), b.to('xla')), a @ b + 1)
  assert len(traces) == 1
  assert met.metric_data('_get_xla_sharding_specs') is None


def test_input_updated_in_place():

  def step(a, b):
    a.mul_(b)
    return a + 1

  f = torch.compile(step, backend='openxla')
  a, expected = torch.ones(4).to('xla'), torch.ones(4)
  for i in range(STEPS):
    b = torch.full((4,), i + 1.)
    expected = expected * b
    assert_right(f(a, b.to('xla')), expected + 1)
    assert_right(a, expected)


def test_gradients():
  torch.manual_seed(0)
  reference, model = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
  model.load_state_dict(reference.state_dict())
  model = model.to('xla')
  f = torch.compile(model, backend='openxla')
  for _ in range(STEPS):
    x = torch.randn(2, 4)
    for m in (reference, model):
      m.zero_grad()
    reference(x).square().sum().backward()
    f(x.to('xla')).square().sum().backward()
    torch_xla.sync()
    assert_right(model.weight.grad, reference.weight.grad)
