"""A policy, applied and audited after three steps."""

import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
from torch_xla.distributed.spmd import audit
from torch_xla.distributed.spmd.policy import (REPLICATED, Rule, ShardingPolicy)
import torch_xla.runtime as xr

xr.use_spmd()
mesh = xs.Mesh(np.arange(8), (2, 4), ('data', 'model'))
model = torch.nn.Sequential(
    torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512,
                                                                256)).to('xla')
policy = ShardingPolicy(
    rules=(Rule('0.weight', ('model', None), priority=(0, None)),
           Rule('2.weight', (None, 'model'), priority=(None, 0)),
           Rule('**.bias', REPLICATED)))
policy.apply(model, mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
  batch = torch.randn(16, 256).to('xla')
  xs.mark_sharding(batch, mesh, ('data', None))
  optimizer.zero_grad()
  model(batch).square().mean().backward()
  optimizer.step()
  torch_xla.sync()
print(audit.audit(model, policy))
