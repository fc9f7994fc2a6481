"""A loop over a split value is split as it."""

import environments
import numpy as np
import pytest
import torch
from torch._higher_order_ops.while_loop import while_loop
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.experimental.fori_loop
import torch_xla.runtime as xr

ENVIRONMENT = environments.DEVICES

own_process = pytest.mark.environment


@pytest.mark.parametrize('mode', [
    pytest.param('shardy', marks=own_process(XLA_USE_SHARDY='1')),
    pytest.param(
        'gspmd', marks=[own_process(XLA_SHARDING_V2='1'), pytest.mark.nightly]),
    pytest.param(
        'stablehlo',
        marks=[
            own_process(XLA_USE_SHARDY='1', XLA_STABLEHLO_COMPILE='1'),
            pytest.mark.nightly
        ]),
])
def test_a_loop_over_a_split_value(mode):
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
  if mode == 'shardy':
    assert {p.partitioner.value for p in torch_xla.shardy.programs()
           } == {'shardy'}
