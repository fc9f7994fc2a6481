"""Two hosts save one checkpoint, each shard once, and load it on another mesh."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pytest

pytest.importorskip('jax', reason='needs jax: its CPU client has collectives')

import hosts  # pylint: disable=wrong-import-position

pytestmark = pytest.mark.slow

# On the mesh below replicated over devices of one host and of both.
_SPECS = {
    'data': ('data', None),
    'model': (None, 'model'),
    'both': ('data', 'model'),
    'whole': (None, None),
    'pending': ('data', None),
}
_PERMUTED = [0, 4, 1, 5, 2, 3, 6, 7]


def save_and_load(host: int, folder: str) -> Any:
  """What is stored of each tensor, and whether each is loaded as it was."""
  import numpy as np
  import torch
  import torch.distributed as dist
  import torch.distributed.checkpoint as dist_cp
  import torch_xla.distributed.spmd as xs
  import torch_xla.experimental.distributed_checkpoint as xc
  from torch_xla.experimental.distributed_checkpoint import (CheckpointManager,
                                                             SPMDLoadPlanner,
                                                             SPMDSavePlanner)
  import torch_xla.runtime as xr
  xr.use_spmd()
  dist.init_process_group(
      'gloo', init_method=f'file://{folder}/store', rank=host, world_size=2)
  torch.manual_seed(0)
  values = {name: torch.randn(6, 10) for name in _SPECS}

  def state(shape: tuple[int, int], zeros: bool) -> dict[str, torch.Tensor]:
    tensors = {}
    for name, value in values.items():
      tensors[name] = (torch.zeros(6, 10) if zeros else value).to('xla')
      mesh = xs.Mesh(np.array(_PERMUTED), shape, ('data', 'model'))
      xs.mark_sharding(tensors[name], mesh, _SPECS[name])
    return tensors

  saved = state((4, 2), False)
  # Pending, as behind a step: no host may compute it alone.
  saved['pending'] = saved['pending'] * 1
  dist_cp.save(
      saved,
      storage_writer=dist_cp.FileSystemWriter(f'{folder}/0'),
      planner=SPMDSavePlanner())
  manager = CheckpointManager(
      f'{folder}/managed',
      save_interval=1,
      max_to_keep=1,
      chkpt_on_preemption=False)
  manager.save(0, saved)
  manager.save_async(1, saved)
  manager.join()
  dist.barrier()
  assert manager.all_steps() == [1]
  stored, loaded = [], []
  held = set()

  class Planner(SPMDLoadPlanner):

    def commit_tensor(self, *args: Any) -> None:
      held.add(len(self._local_shards))
      super().commit_tensor(*args)

  with mock.patch.object(xc, 'SPMDLoadPlanner', Planner):
    manager.restore(1, state((2, 4), True))
  assert held <= {0, 1}
  for path in ('0', 'managed/1'):
    reader = dist_cp.FileSystemReader(f'{folder}/{path}')
    entries = reader.read_metadata().state_dict_metadata
    stored += [sum(c.sizes.numel() for c in e.chunks) for e in entries.values()]
    into = state((2, 4), True)
    dist_cp.load(into, storage_reader=reader, planner=SPMDLoadPlanner())
    loaded += [
        torch.equal(into[name].cpu(), value) for name, value in values.items()
    ]
  size = sum(p.stat().st_size for p in Path(folder, '0').glob('*.distcp'))
  return stored, loaded, size


def test_two_hosts_save_each_shard_once(tmp_path: Path) -> None:
  for called in hosts.call(save_and_load, str(tmp_path), XLA_USE_SHARDY='1'):
    stored, loaded, size = called.value
    assert stored == [60] * len(loaded) and all(loaded)
    # 5 tensors of 240 bytes, and what torch.save puts around each shard.
    assert size < 5 * 8 * 2000
