"""Saves a checkpoint where a real one may be, in three ways."""

import os
import sys

import torch
import torch.distributed.checkpoint as dist_cp
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.runtime as xr

folder = sys.argv[1]
xr.use_spmd()
xr.initialize_cache(os.path.join(folder, 'cache'))
model = torch.nn.Linear(8, 8).to('xla')
for _ in range(2):
  model(torch.ones(8, 8).to('xla')).sum().backward()
  torch_xla.sync()
  torch.save(model.state_dict(), os.path.join(folder, 'model.pt'))
  xm.save(model.state_dict(), os.path.join(folder, 'model.xm'))
  dist_cp.save(
      model.state_dict(),
      storage_writer=dist_cp.FileSystemWriter(os.path.join(folder, 'dcp')))
print('saved')
