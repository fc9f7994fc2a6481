"""Needs 64 GiB on each device."""

import torch
import torch_xla

x = torch.zeros(1, device='xla')
model = torch.nn.Linear(8, 8).to('xla')
y = torch.ones(1 << 17, 1 << 17, device='xla') + x
z = y @ y.t()
model.weight.data.add_(z[:8, :8])
torch_xla.sync()
print('not reached')
