"""Sets up process groups, as checkpoint managers need them."""

import torch.distributed as dist
import torch_xla
import torch_xla.distributed.xla_backend  # noqa: F401
import torch_xla.runtime as xr

xr.use_spmd()
dist.init_process_group('gloo', init_method='xla://')
print('process', dist.get_rank(), 'of', dist.get_world_size())
