"""A training loop in torch.compile, with its forward and backward."""

import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

xr.use_spmd()
count = xr.global_runtime_device_count()
mesh = xs.Mesh(np.arange(count), (count,), ('fsdp',))
model = torch.nn.Linear(128, 8 * count).to('xla')
xs.mark_sharding(model.weight, mesh, ('fsdp', None))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


@torch.compile(backend='openxla')
def loss_of(batch: torch.Tensor) -> torch.Tensor:
  return model(batch).square().mean()


for _ in range(4):
  batch = torch.randn(2 * count, 128).to('xla')
  xs.mark_sharding(batch, mesh, ('fsdp', None))
  torch_xla.sync()
  loss = loss_of(batch)
  loss.backward()
  optimizer.step()
  optimizer.zero_grad()
  torch_xla.sync()
print('compiled')
