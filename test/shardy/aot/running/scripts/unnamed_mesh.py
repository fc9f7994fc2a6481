"""A mesh whose axes have no names."""

import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

xr.use_spmd()
mesh = xs.Mesh(np.arange(8), (2, 4))
weight = torch.randn(250, 129).to('xla')
xs.mark_sharding(weight, mesh, (1, None))
(torch.randn(7, 129).to('xla') @ weight.t()).sum()
total = weight.sum()
torch_xla.sync()
