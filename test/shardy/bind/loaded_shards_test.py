"""Priorities count where a checkpoint's shards took the place of a tensor's data."""

import environments
import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

ENVIRONMENT = environments.SHARDY


def test_in_the_first_step():
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))
  w = torch.nn.Parameter(torch.zeros(8, 8).to('xla'))
  xs.mark_sharding(w, mesh, ('y', None), priority=(1, None))
  torch_xla.sync(wait=True)
  # As a state dict has it: not the object that was marked.
  loaded = xs.wrap_if_sharded(w.detach())
  shards = loaded.local_shards
  for shard in shards:
    shard.data.fill_(2)
  loaded.load_local_shards_(shards)
  with torch_xla.shardy.record() as programs:
    out = w * 3
    torch_xla.sync(wait=True)
  assert "('y', None)  (1, None)" in str(programs[0])
  # And not what it had before.
  assert str(programs[0]).count('f32[8,8]') == 1
  assert torch.equal(out.cpu(), torch.full((8, 8), 6.))
