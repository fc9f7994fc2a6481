"""Two hosts of a pod, of four devices each: the same script in two processes."""

from __future__ import annotations

import gc
import os
from pathlib import Path
import signal
import time
from typing import Any

import pytest

pytest.importorskip('jax', reason='needs jax: its CPU client has collectives')

import hosts  # pylint: disable=wrong-import-position
import trained  # pylint: disable=wrong-import-position

pytestmark = pytest.mark.slow

_SHARDY = {'XLA_USE_SHARDY': '1'}
_MODES = {'shardy': _SHARDY, 'gspmd': {'XLA_SHARDING_V2': '1'}}


def _sent(programs: list[Any]) -> list[tuple[bytes, ...]]:
  """All that a host told its plugin, of each program."""
  return [(p.sent, p.options_sent, p.handed_on, p.options_handed_on)
          for p in programs]


def train(host: int) -> dict[str, Any]:
  import torch_xla
  import torch_xla.runtime as xr
  xr.use_spmd()
  if host:
    _make_and_drop()
  with torch_xla.shardy.record() as programs:
    result = trained.over_all()
  return {
      'place': (xr.process_index(), xr.process_count(),
                xr.global_runtime_device_count(),
                xr.addressable_runtime_device_count()),
      'trained': result,
      'sent': _sent(programs),
      'partitioners': {(p.partitioner.value, p.note) for p in programs},
      'collectives': [c.kind for p in programs for c in p.collectives or ()],
  }


def _make_and_drop() -> None:
  """What one host does and the other does not, and no device computes."""
  import torch
  kept = [torch.ones(3, device='xla') * n for n in range(5)]
  del kept[::2]
  gc.collect()


def _check(result: trained.Trained) -> None:
  expected = trained.on_one_device()
  assert result.losses == pytest.approx(expected.losses, rel=1e-5)
  assert result.weights.keys() == expected.weights.keys()
  for name, weight in expected.weights.items():
    assert result.weights[name] == pytest.approx(weight, abs=1e-5)


@pytest.mark.parametrize('mode', _MODES)
def test_hosts_train_as_one(mode: str) -> None:
  first, second = (c.value for c in hosts.call(train, **_MODES[mode]))
  assert (first['place'], second['place']) == ((0, 2, 8, 4), (1, 2, 8, 4))
  _check(first['trained'])
  _check(second['trained'])
  assert first['partitioners'] == {(mode, '')}
  assert 'all-reduce' in first['collectives']
  assert len(first['sent']) > 2 and all(map(all, first['sent']))
  assert first['sent'] == second['sent']


def _train_with_cache(_: int, folder: str) -> tuple[Any, trained.Trained]:
  from torch_xla.shardy import cache
  kept = cache.use(folder)
  return trained.over_all(), kept.report()


@pytest.mark.nightly
def test_hosts_share_a_cache(tmp_path: Path) -> None:
  folder = str(tmp_path / 'compiled')
  reports = [
      c.value[1] for c in hosts.call(_train_with_cache, folder, **_SHARDY)
  ]
  made = reports[0].loaded + reports[0].missing
  assert made
  for report in reports:
    assert report.loaded + report.missing == made
    assert (report.stored, report.not_stored) == (report.missing, ())
  assert len(list(Path(folder).rglob('*.entry'))) == made
  for called in hosts.call(_train_with_cache, folder, **_SHARDY):
    result, report = called.value
    assert (report.loaded, report.missing) == (made, 0)
    _check(result)


def _scale_own_rows(host: int) -> tuple[list[float], list[list[float]]]:
  """Twice the rows that each host loads for itself: in all, and on a device."""
  import numpy as np
  import torch
  import torch_xla
  from torch_xla.distributed import parallel_loader
  import torch_xla.distributed.spmd as xs
  import torch_xla.runtime as xr
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8), (8, 1), ('data', 'model'))
  loader = parallel_loader.MpDeviceLoader(
      [torch.arange(4.).reshape(4, 1) + 4 * host],
      torch_xla.device(),
      input_sharding=xs.ShardingSpec(mesh, ('data', None), minibatch=True))
  rows, = loader
  scaled = 2 * rows
  torch_xla.sync(wait=True)
  shards = xs.wrap_if_sharded(scaled).local_shards
  return (scaled.sum(1).cpu().tolist(),
          [s.data.flatten().tolist() for s in shards])


def test_each_host_loads_its_own_rows() -> None:
  called = hosts.call(_scale_own_rows, **_SHARDY)
  for host, result in enumerate(c.value for c in called):
    whole, own = result
    assert whole == [2. * row for row in range(8)]
    assert own == [[2. * row] for row in range(4 * host, 4 * host + 4)]


def _train_until_one_dies(host: int) -> None:

  def die(step: int) -> None:
    if step == 1:
      print('waits', time.monotonic(), flush=True)
      if host:
        os.kill(os.getpid(), signal.SIGKILL)

  try:
    trained.over_all(die)
  finally:
    print('ends', time.monotonic(), flush=True)


def test_a_host_that_dies_is_an_error_of_the_other() -> None:
  other, dead = hosts.ended(_train_until_one_dies, **_SHARDY)
  assert dead.returncode == -signal.SIGKILL
  assert other.returncode != 0
  error, = (
      line for line in other.stderr.splitlines()
      if line.startswith('RuntimeError'))
  # Which collective, and at what address the dead one was.
  assert 'Gloo all-reduce failed' in error and '[127.0.0.1]:' in error
  times = dict(line.split()
               for line in other.stdout.splitlines()
               if line.startswith(('waits', 'ends')))
  assert float(times['ends']) - float(times['waits']) < 60
