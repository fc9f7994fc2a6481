"""What lies behind a compiled function is computed once in a training step.

https://github.com/tenstorrent/tt-xla/issues/3234
"""

from kinds import assert_right
import pytest
import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met
import torch_xla.distributed.spmd as xs

ENVIRONMENT = {'PJRT_DEVICE': 'CPU', 'CPU_NUM_DEVICES': '8'}
pytestmark = pytest.mark.usefixtures('spmd')


def test_layers_behind_a_compiled_function_take_one_program(mesh):
  torch.manual_seed(0)
  here = [torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)]
  body, head = (torch.nn.Linear(8, 8).to('xla') for _ in range(2))
  body.load_state_dict(here[0].state_dict())
  head.load_state_dict(here[1].state_dict())
  xs.mark_sharding(body.weight, mesh, ('y', None))
  xs.mark_sharding(head.weight, mesh, (None, 'y'))
  x = torch.randn(8, 8)
  there = x.to('xla')
  torch_xla.sync()
  compiled = torch.compile(body, backend='openxla')
  programs = []
  for _ in range(3):
    body.zero_grad()
    head.zero_grad()
    met.clear_all()
    head(compiled(there)).square().mean().backward()
    torch_xla.sync()
    xm.wait_device_ops()  # An execution is counted when it is over.
    programs.append(met.metric_data('ExecuteReplicatedTime')[0])
  # The forward graph, what the backward graph gets and the head's gradients,
  # the backward graph.
  assert programs[1:] == [3, 3]
  assert met.metric_data('CompileTime') is None
  here[1](here[0](x)).square().mean().backward()
  for mine, theirs in zip((body, head), here, strict=True):
    torch.testing.assert_close(mine.weight.grad.cpu(), theirs.weight.grad)


def test_a_forward_graph_syncs_its_inputs_alone():
  # As upstream's test_dynamo.py has it (#6636).
  compiled = torch.compile(lambda x: x + 1, backend='openxla')
  compiled(torch.ones(2).to('xla'))
  x, other = torch.ones(2).to('xla') * 2, torch.ones(2).to('xla') * 3
  compiled(x)
  is_pending = [
      'XLAData: None' in torch_xla._XLAC._get_xla_tensor_debug_info(t)
      for t in (x, other)
  ]
  assert is_pending == [False, True]


def test_what_is_pending_keeps_the_data_that_it_is_computed_from(mesh):
  here = torch.randn(8, 8)
  w = here.to('xla')
  xs.mark_sharding(w, mesh, ('x', None))
  compiled = torch.compile(lambda x: x @ w, backend='openxla')
  for _ in range(3):
    x = torch.randn(8, 8)
    right, pending = here.add_(.5).sum(), w.add_(.5).sum()
    here.mul_(.9)
    w.mul_(.9)
    assert_right(compiled(x.to('xla')), x @ here, 1e-3)
    assert_right(pending, right, 1e-3)
