"""A compiled graph does not hold the tensors that it was traced with.

https://github.com/tenstorrent/tt-xla/issues/3507
"""

import gc
import weakref

from kinds import assert_right
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs

ENVIRONMENT = {'PJRT_DEVICE': 'CPU', 'CPU_NUM_DEVICES': '8'}
pytestmark = pytest.mark.usefixtures('spmd')


def test_inputs_go_while_the_graph_lives(mesh):
  w = torch.ones(8, 8).to('xla')
  xs.mark_sharding(w, mesh, ('y', None))
  torch_xla.sync()
  f = torch.compile(lambda x, w: x @ w, backend='openxla')
  first = torch.ones(8, 8).to('xla')
  assert_right(f(first, w), torch.full((8, 8), 8.))
  gone = [weakref.ref(first), weakref.ref(w)]
  del first, w
  gc.collect()
  assert [ref() for ref in gone] == [None, None]
  # And the graph, which lives, is right for others without another trace.
  other = torch.full((8, 8), 2.).to('xla')
  assert_right(f(other, other), torch.full((8, 8), 32.))


def test_a_trained_models_weights_go_with_it(mesh):
  model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
  model = model.to('xla')
  for layer in model:
    xs.mark_sharding(layer.weight, mesh, ('y', None))
  torch_xla.sync()
  optimizer = torch.optim.SGD(model.parameters(), lr=.1)
  f = torch.compile(model, backend='openxla')
  for _ in range(3):
    optimizer.zero_grad()
    f(torch.ones(8, 8).to('xla')).sum().backward()
    optimizer.step()
    torch_xla.sync()
  gone = [weakref.ref(p) for p in model.parameters()]
  del f, model, layer, optimizer
  gc.collect()
  assert [ref() for ref in gone] == [None] * 4
