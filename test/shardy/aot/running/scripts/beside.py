"""Another model is on the device while the first one runs."""

import torch
import torch_xla
import torch_xla.runtime as xr

xr.use_spmd()
other = torch.nn.Linear(1024, 1024, bias=False).to('xla')
model = torch.nn.Linear(512, 512, bias=False).to('xla')
torch_xla.sync()
for _ in range(3):
  model(torch.ones(8, 512).to('xla'))
  torch_xla.sync()
y = model(torch.ones(8, 512).to('xla'))
torch_xla.sync()
del other
z = model(torch.ones(4, 512).to('xla'))
torch_xla.sync()
