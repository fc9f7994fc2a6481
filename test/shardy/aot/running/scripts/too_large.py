"""Needs 64 GiB on each device."""

import torch
import torch_xla

x = torch.zeros(1, device='xla')
y = torch.ones(1 << 17, 1 << 17, device='xla') + x
z = y @ y.t()
torch_xla.sync()
print('not reached')
