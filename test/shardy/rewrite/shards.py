"""What each device holds of a tensor, by the meaning of its partition spec."""

import math

import numpy as np
import torch
from torch_xla.distributed.spmd import XLAShardedTensor
import torch_xla.distributed.spmd as xs


def check_shards(t: torch.Tensor, expected: torch.Tensor, mesh: xs.Mesh,
                 spec: tuple) -> None:
  """Each of eight devices holds its tile of `expected`."""
  names, shape = mesh.axis_names, mesh.mesh_shape
  places = {
      int(device): np.unravel_index(i, shape)
      for i, device in enumerate(mesh.device_ids)
  }
  shards = XLAShardedTensor(t, mesh, spec).local_shards
  assert len(shards) == 8
  for shard in shards:
    place = places[int(shard.shard_device.rpartition(':')[2])]
    index = []
    for size, entry in zip(expected.shape, spec):
      axes = () if entry is None else entry if isinstance(entry, tuple) else (
          entry,)
      tile = 0
      count = math.prod(shape[names.index(a)] for a in axes)
      for a in axes:
        tile = tile * shape[names.index(a)] + int(place[names.index(a)])
      width = -(-size // count)
      index.append(
          slice(min(size, tile * width), min(size, (tile + 1) * width)))
    torch.testing.assert_close(shard.unpadded_data, expected[tuple(index)])


def sharded(t: torch.Tensor, mesh: xs.Mesh, spec, priority=None):
  """The tensor on the devices, annotated."""
  on_device = t.to('xla')
  xs.mark_sharding(on_device, mesh, spec, priority=priority)
  return on_device
