"""pytorch/xla#9755: an unsharded input must not retrace a compiled graph."""

import copy
from typing import Callable, Tuple

from kinds import assert_right
import numpy as np
import pytest
import torch
import torch_xla
import torch_xla.debug.metrics as met
import torch_xla.distributed.spmd as xs

ENVIRONMENT = {'PJRT_DEVICE': 'CPU', 'CPU_NUM_DEVICES': '8'}
pytestmark = pytest.mark.usefixtures('spmd')
# Every step is checked: a threshold below this would hide a retrace.
STEPS = 4


def compiled(f: Callable, **kwargs) -> Callable:
  return torch.compile(f, backend='openxla', **kwargs)


def sharded_linear(mesh: xs.Mesh) -> Tuple[torch.nn.Module, torch.nn.Module]:
  """The same layer on the host and, sharded, on the device."""
  torch.manual_seed(0)
  linear = torch.nn.Linear(16, 16)
  on_device = copy.deepcopy(linear).to('xla')
  xs.mark_sharding(on_device.weight, mesh, ('y', None))
  return linear, on_device


def test_fresh_input_every_step_traces_once(traces, mesh):
  reference, model = sharded_linear(mesh)
  f = compiled(model)
  with torch.no_grad():
    for _ in range(STEPS):
      x = torch.randn(8, 16)
      y = f(x.to('xla'))
      assert_right(y, reference(x))
  assert traces['n'] == 1


def test_several_inputs_one_of_them_sharded(traces, mesh):
  f = compiled(lambda a, b, c: (a @ b + c, a - c))
  for _ in range(STEPS):
    a, b, c = (torch.randn(8, 8) for _ in range(3))
    on_device = [t.to('xla') for t in (a, b, c)]
    xs.mark_sharding(on_device[1], mesh, (None, 'y'))
    first, second = f(*on_device)
    assert_right(first, a @ b + c)
    assert_right(second, a - c)
  assert traces['n'] == 1


def test_change_of_sharding_retraces_once(traces, mesh):
  f = compiled(lambda a: a * 2 + 1)
  x = torch.randn(8, 8)
  for spec in (None, ('x', None), (None, 'y')):
    before = traces['n']
    for _ in range(STEPS):
      a = x.to('xla')
      if spec:
        xs.mark_sharding(a, mesh, spec)
      assert_right(f(a), x * 2 + 1)
    assert traces['n'] == before + 1, spec


def test_change_of_placement_is_seen_after_many_steps(traces, mesh):
  """Of a tensor that nobody marked: it is placed as its operand is."""
  f = compiled(lambda a: a.cumsum(0) + 1)
  sources = [torch.randn(8, 8) for _ in range(2)]
  marked = [source.to('xla') for source in sources]
  xs.mark_sharding(marked[0], mesh, ('x', None))
  xs.mark_sharding(marked[1], mesh, (None, 'x'))
  for step in range(9):
    a = marked[step > 6] * 1
    torch_xla.sync()
    assert_right(f(a), sources[step > 6].cumsum(0) + 1)
  assert traces['n'] == 2


def test_same_placement_written_otherwise_does_not_retrace(traces):
  """The texts compared are XLA's own, which has one for each placement."""
  meshes = [
      xs.Mesh(np.arange(8), (2, 4), ('x', 'y')),
      xs.Mesh(np.arange(8), (2, 2, 2), ('x', 'y', 'z')),
      # Other orders inside the replica groups.
      xs.Mesh(np.array([3, 1, 0, 2, 4, 7, 6, 5]), (2, 4), ('x', 'y')),
  ]
  f = compiled(lambda a: a * 2 + 1)
  x = torch.randn(8, 8)
  for mesh in meshes:
    a = x.to('xla')
    xs.mark_sharding(a, mesh, ('x', None))
    assert_right(f(a), x * 2 + 1)
  assert traces['n'] == 1


def test_sharding_taken_away_retraces_once(traces, mesh):
  f = compiled(lambda a: a * 2 + 1)
  x = torch.randn(8, 8)
  sharded = x.to('xla')
  xs.mark_sharding(sharded, mesh, ('x', 'y'))
  f(sharded)
  assert traces['n'] == 1
  for _ in range(STEPS):
    assert_right(f(x.to('xla')), x * 2 + 1)
  assert traces['n'] == 2


def test_explicitly_replicated_is_unsharded(traces, mesh):
  f = compiled(lambda a: a.sin())
  x = torch.randn(8, 8)
  for step in range(STEPS):
    a = x.to('xla')
    if step % 2:
      xs.mark_sharding(a, mesh, (None, None))
    assert_right(f(a), x.sin())
  assert traces['n'] == 1


def test_input_updated_in_place(traces, mesh):
  del mesh

  def step(a, b):
    a.add_(b)
    return a * 1

  f = compiled(step)
  a, expected = torch.zeros(8, 8).to('xla'), torch.zeros(8, 8)
  for _ in range(STEPS):
    b = torch.randn(8, 8)
    expected += b
    assert_right(f(a, b.to('xla')), expected)
    assert_right(a, expected)
  assert traces['n'] == 1


def test_output_fed_back_as_input(traces, mesh):
  del mesh
  f = compiled(lambda a, b: (a + b, b))
  a, expected = torch.zeros(8, 8).to('xla'), torch.zeros(8, 8)
  for _ in range(STEPS):
    b = torch.randn(8, 8)
    expected = expected + b
    a, returned = f(a, b.to('xla'))
    assert_right(a, expected)
    assert_right(returned, b)
  assert traces['n'] == 1


@pytest.mark.parametrize('first_only', [True, False])
def test_input_that_went_through_another_graph(traces, first_only):
  """It must not be captured as a constant of the second graph.

  It is with #9757 alone, and in Tenstorrent's fork: `''` read as `{replicated}`.
  """
  other = compiled(lambda a: (a - 3, a))
  f = compiled(lambda a: a * 2 + 1)
  for step in range(STEPS):
    x = torch.full((4,), float(step))
    a = x.to('xla')
    if step == 0 or not first_only:
      _, a = other(a)
    assert_right(f(a), x * 2 + 1)
  assert traces['n'] == 2


@pytest.mark.parametrize('of', [
    lambda a: (a, a),
    lambda a: (a, a.clone()),
    lambda a: (a, a.detach()),
    lambda a: (a, a[:1]),
    lambda a: (a, a.view(2, 2).sum(0).repeat(2)),
], ids=['itself', 'clone', 'detached', 'slice', 'computed'])  # yapf: disable
def test_inputs_that_share_data(traces, of):
  f = compiled(lambda a, b: a * b + 1)
  for step in range(STEPS):
    x = torch.arange(4.) + step
    a, b = of(x.to('xla'))
    c, d = of(x)
    assert_right(f(a, b), c * d + 1)
  assert traces['n'] == 1


def copied(a: torch.Tensor) -> torch.Tensor:
  """A copy that has the same data until one of both is updated."""
  b = torch.empty_like(a)
  b.copy_(a)
  torch_xla.sync()
  return b


@pytest.mark.parametrize('of', [lambda a: a.detach(), copied])
def test_inputs_that_share_data_once(traces, mesh, of):
  del mesh
  f = compiled(lambda a, b: a * 2 - b * 3)
  for step in range(STEPS):
    x = torch.randn(4)
    y = torch.randn(4) if step else x
    a = x.to('xla')
    assert_right(f(a, y.to('xla') if step else of(a)), x * 2 - y * 3)
  assert traces['n'] == 2


def test_input_that_was_copied_before(traces, mesh):
  del mesh
  f = compiled(lambda a: a * 2 + 1)
  for step in range(STEPS):
    x = torch.full((4,), float(step))
    a = x.to('xla')
    torch_xla.sync()
    if step == 0:
      _, b = a * 2, copied(a)
    assert_right(f(a), x * 2 + 1)
  del b
  assert traces['n'] == 1


def test_scalars_of_equal_value(traces, mesh):
  """The runtime uploads one for both, and for a constant of the graph."""
  del mesh
  f = compiled(lambda a, b: a * 2.5 - b)
  for step in range(STEPS):
    x, y = torch.tensor(2.5 + step), torch.tensor(2.5 - step)
    a, b = x.to('xla'), y.to('xla')
    _ = a * b
    torch_xla.sync()
    assert_right(f(a, b), x * 2.5 - y)
  assert traces['n'] == 1


@pytest.mark.parametrize('is_used', [True, False])
def test_mark_of_an_input_within_the_function(traces, mesh, is_used):
  ids, shape = mesh.device_ids.tolist(), list(mesh.mesh_shape)

  def step(a):
    b = torch.ops.xla.dynamo_mark_sharding(a, ids, shape, "('x', 'y')",
                                           "('x', None)")
    return (b if is_used else a) * 2

  f = compiled(step)
  for _ in range(STEPS):
    x = torch.randn(8, 8)
    assert_right(f(x.to('xla')), x * 2)
  assert traces['n'] == 1


# Python's guards do: to have C++ check shapes, gcc runs for seconds first.
@torch._dynamo.config.patch(enable_cpp_symbolic_shape_guards=False)
def test_dynamic_shapes_trace_once_per_shape(traces, mesh):
  _, model = sharded_linear(mesh)
  f = compiled(model, dynamic=True)
  with torch.no_grad():
    for _ in range(3):
      for rows in (4, 6, 8):
        x = torch.randn(rows, 16)
        y = f(x.to('xla'))
        assert_right(
            y,
            torch.nn.functional.linear(x, model.weight.cpu(), model.bias.cpu()))
  assert traces['n'] == 3


def test_training_step_traces_forward_and_backward_once(traces, mesh):
  reference, model = sharded_linear(mesh)
  loss_of = lambda m, x: m(x).square().mean()
  step = compiled(lambda x: loss_of(model, x))
  for _ in range(STEPS):
    x = torch.randn(8, 16)
    for m in (reference, model):
      m.zero_grad()
    expected = loss_of(reference, x)
    expected.backward()
    loss = step(x.to('xla'))
    loss.backward()
    torch_xla.sync()
    assert_right(loss, expected)
    for got, reference_parameter in zip(model.parameters(),
                                        reference.parameters()):
      assert_right(got.grad, reference_parameter.grad)
  assert traces['n'] == 2


def checks() -> int:
  """How often the bridge has asked for its inputs' shardings."""
  data = met.metric_data('_get_xla_sharding_specs')
  return data[0] if data else 0


@pytest.mark.parametrize('threshold', [0, 2])
def test_threshold_ends_the_check(traces, monkeypatch, threshold):
  monkeypatch.setenv('XLA_DYNAMO_INPUT_SHARDING_CHECK_THRESHOLD',
                     str(threshold))
  f = compiled(lambda a: a + 1)
  x = torch.randn(8, 8)
  before = checks()
  for _ in range(STEPS):
    f(x.to('xla'))
  assert traces['n'] == 1
  # One when the graph is captured, then one per call up to the threshold.
  assert checks() - before == 1 + threshold


def test_last_check_before_the_threshold_still_sees_a_change(
    traces, mesh, monkeypatch):
  monkeypatch.setenv('XLA_DYNAMO_INPUT_SHARDING_CHECK_THRESHOLD', '2')
  f = compiled(lambda a: a + 1)
  x = torch.randn(8, 8)
  f(x.to('xla'))
  changed = x.to('xla')
  xs.mark_sharding(changed, mesh, ('x', None))
  f(changed)
  assert traces['n'] == 2
