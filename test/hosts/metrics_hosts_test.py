"""Metrics over a mesh of two hosts, which compare what they hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip('jax', reason='needs jax: its CPU client has collectives')

import hosts  # pylint: disable=wrong-import-position

pytestmark = pytest.mark.nightly


def _metrics(host: int, folder: str) -> list[Any]:
  import numpy as np
  import torch
  import torch.distributed as dist
  from torch_xla.distributed.spmd import metrics
  import torch_xla.distributed.spmd as xs
  import torch_xla.runtime as xr
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8), (8,), ('data',))
  losses = torch.arange(16.).to('xla')
  xs.mark_sharding(losses, mesh, ('data',))
  told: list[Any] = []

  def tell() -> None:
    try:
      mean = metrics.global_mean(losses)
      told.append((mean.item(), mean.proof.processes, len(mean.proof.devices)))
    except metrics.LocalValueError as e:
      told.append(str(e))

  tell()
  dist.init_process_group(
      'gloo', init_method=f'file://{folder}/store', rank=host, world_size=2)
  tell()
  return told


def test_hosts_compare(tmp_path: Path) -> None:
  for called in hosts.call(_metrics, str(tmp_path), XLA_USE_SHARDY='1'):
    alone, mean = called.value
    assert alone.startswith('2 processes share the mesh')
    assert mean == (7.5, 2, 4)
