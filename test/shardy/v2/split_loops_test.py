"""A loop over a split value is split as it."""

import environments
import numpy as np
import torch
from torch._higher_order_ops.while_loop import while_loop
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.experimental.fori_loop
import torch_xla.runtime as xr

ENVIRONMENT = environments.SHARDY


def test_a_loop_over_a_split_value():
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8)[::-1], (2, 4), ('a', 'b'))
  x = torch.arange(48.).reshape(8, 6) / 48
  split = x.to('xla')
  xs.mark_sharding(split, mesh, ('a', 'b'))
  _, y = while_loop(lambda i, t: i > 0, lambda i, t: (i - 1, torch.tanh(t + t)),
                    (torch.tensor(3).to('xla'), split))
  for _ in range(3):
    x = torch.tanh(x + x)
  torch.testing.assert_close(y.cpu(), x)
  assert {p.partitioner.value for p in torch_xla.shardy.programs()
         } == {'shardy'}
