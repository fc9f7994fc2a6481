"""Metrics over real processes, and over the replicas of one.

XLA:CPU has no collectives between processes, so processes are joined by
`torch.distributed` with gloo, and replicas run as threads, which is how
`torch_xla.launch` spreads over CPU devices.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
import json
import math
import os
from pathlib import Path
import sys
import threading
from typing import Any
import warnings

import environments
import numpy as np
from processes import call
import pytest
import torch
import torch.distributed as dist
import torch_xla
from torch_xla.distributed.spmd import metrics
import torch_xla.distributed.spmd as xs
from torch_xla.distributed.spmd.metrics import host_reads
import torch_xla.runtime as xr

ENVIRONMENT = {}  # Beside the tests that need no child.
_RANKS = 3
_REPLICAS = 4
_OFF = environments.DEVICES
_SHARDY = {**_OFF, 'XLA_USE_SHARDY': '1'}

# What processes and replicas run. By thread, as the replicas of a process share
# its warnings.
_warnings: dict[int, list[str]] = collections.defaultdict(list)


def keep_warnings() -> None:
  warnings.simplefilter('always', host_reads.LocalReadWarning)
  warnings.showwarning = lambda message, *_: _warnings[threading.get_ident()
                                                      ].append(str(message))


def batch(number: int) -> torch.Tensor:
  """5 rows, 2 rows or none, by the number of the process or replica."""
  generator = torch.Generator().manual_seed(number)
  return torch.randn(max(0, 5 - 3 * number), 3, generator=generator)


def described(metric: metrics.GlobalMetric) -> list:
  return [
      metric.item(), metric.count,
      len(metric.proof.devices), metric.proof.processes
  ]


def error_of(function: Callable, *arguments: Any) -> Any:
  """What goes wrong, as text; the value if nothing does."""
  try:
    return function(*arguments).item()
  except Exception as e:
    return f'{type(e).__name__}: {e}'


def results(number: int, to_device: Callable) -> dict[str, Any]:
  """What all processes and replicas find, of a batch of their own."""
  t = to_device(batch(number))
  found = {}
  found['sum'] = described(metrics.global_sum(t))
  found['mean'] = described(metrics.global_mean(t))
  found['max'] = described(metrics.global_max(t))
  local_mean = (t.sum() / max(1, t.numel())).to(torch.bfloat16)
  found['mean of means'] = described(
      metrics.global_mean(local_mean, weight=t.numel()))
  found['integers'] = described(
      metrics.global_max(to_device(torch.tensor([-7 - number]))))
  nan = torch.tensor([1., float('nan') if number == 1 else 5.])
  found['nan'] = described(metrics.global_max(to_device(nan)))
  found['empty'] = error_of(metrics.global_sum, to_device(torch.ones(0)))
  messages = _warnings[threading.get_ident()]
  with host_reads.watch_host_reads():
    metrics.global_sum(t).item()
    before = list(messages)
    to_device(torch.ones(1)).item()
  found['warnings'] = [before, messages]
  return found


def rank_found(rank: int, devices: int, store: str) -> dict[str, Any]:
  """What a process of `torch.distributed` finds, with SPMD if it has devices.
  """
  # Read when the runtime starts, and when processes are to be joined.
  os.environ.update(
      CPU_NUM_DEVICES=str(devices), RANK=str(rank), WORLD_SIZE=str(_RANKS))
  keep_warnings()
  mesh = None
  if devices > 1:
    xr.use_spmd()
    mesh = xs.Mesh(np.arange(devices), (devices,), ('data',))

  def to_device(t: torch.Tensor) -> torch.Tensor:
    t = t.to('xla')
    if mesh and t.numel():
      xs.mark_sharding(t, mesh, ('data',) + (None,) * (t.dim() - 1))
    return t

  lonely = error_of(metrics.global_sum, to_device(torch.ones(2)))
  dist.init_process_group(
      'gloo', init_method=f'file://{store}', rank=rank, world_size=_RANKS)
  found = results(rank, to_device)
  found['lonely'] = lonely
  t = to_device(torch.ones(2))
  found['mixed'] = error_of(
      metrics.global_max if rank == 1 else metrics.global_sum, t)
  if mesh:
    if rank == 1:
      t = xs.enable_manual_sharding(
          torch.arange(2.).to('xla'), ('data',), mesh=mesh).global_tensor * 2
    found['manual in one'] = error_of(metrics.global_sum, t)
  dist.destroy_process_group()
  return found


def replica(_: int) -> None:
  found = results(xr.global_ordinal(), lambda t: t.to('xla'))
  # One write, or the threads' lines mix.
  sys.stdout.write(f'RESULT {json.dumps(found)}\n')


def launch_replicas() -> None:
  # On few cores torch_xla's pool has fewer threads than there are replicas to
  # wait for one another, in the official wheel too.
  os.environ.update(
      CPU_NUM_DEVICES=str(_REPLICAS), XLA_THREAD_POOL_SIZE=str(4 * _REPLICAS))
  keep_warnings()
  # This process has imported what a new one would have to.
  torch_xla.launch(replica, start_method='fork')


@pytest.fixture(
    scope='module',
    params=[
        pytest.param((1, _OFF), id='one device each'),
        pytest.param((2, _SHARDY), id='spmd, Shardy', marks=pytest.mark.slow)
    ])
def processes_found(request, tmp_path_factory) -> tuple[list[dict], int]:
  """What each of three processes found, and the devices that each has."""
  devices, variables = request.param
  store: Path = tmp_path_factory.mktemp('ranks') / 'store'

  def run_rank(rank: int) -> dict[str, Any]:
    return call(rank_found, rank, devices, str(store), **variables).value

  with ThreadPoolExecutor(_RANKS) as pool:
    return list(pool.map(run_rank, range(_RANKS))), devices


@pytest.fixture(
    scope='module',
    params=[
        pytest.param(_OFF, id='replicas'),
        pytest.param(_SHARDY, id='replicas, Shardy', marks=pytest.mark.nightly)
    ])
def replicas_found(request) -> list[dict]:
  """What each of four replicas found, two of which have no data."""
  output = call(launch_replicas, **request.param).stdout
  return [
      json.loads(line.removeprefix('RESULT '))
      for line in output.splitlines()
      if line.startswith('RESULT ')
  ]


def check_numbers(all_found, devices, processes):
  """All found the same, and it is what torch says of all rows together."""
  rows = torch.cat([
      torch.randn(rows, 3, generator=torch.Generator().manual_seed(i))
      for i, rows in enumerate((5, 2))
  ])
  for found in all_found:
    proof = [devices, processes]
    assert found['sum'] == [
        pytest.approx(rows.sum().item(), abs=1e-5), 21, *proof
    ]
    assert found['mean'] == [
        pytest.approx(rows.mean().item(), abs=1e-6), 21, *proof
    ]
    # Each mean was rounded to bfloat16.
    assert found['mean of means'] == [
        pytest.approx(rows.mean().item(), abs=4e-3), 21, *proof
    ]
    assert found['max'] == [rows.max().item(), 21, *proof]
    assert found['integers'] == [-7, len(all_found), *proof]
    assert math.isnan(found['nan'][0])
    assert found['empty'].startswith('EmptyMetricError: global_sum')
    for name in ('sum', 'mean', 'max', 'mean of means'):
      assert found[name] == all_found[0][name]


def test_processes_agree(processes_found):
  found, devices = processes_found
  check_numbers(found, devices, processes=_RANKS)


def test_a_process_on_its_own_is_an_error(processes_found):
  for found in processes_found[0]:
    assert found['lonely'].startswith('LocalValueError: WORLD_SIZE=3')
    assert 'init_process_group' in found['lonely']


def test_different_metrics_at_once_are_an_error(processes_found):
  for found in processes_found[0]:
    assert found['mixed'] == (
        'LocalValueError: the processes compute different metrics at once: '
        'global_sum, global_max, global_sum')


def test_error_of_one_process_is_everybodys(processes_found):
  found, devices = processes_found
  if devices == 1:
    pytest.skip('manual sharding needs SPMD')
  for process in found:
    assert process['manual in one'].startswith(
        'LocalValueError: global_sum: process 1: the result is not replicated')
    assert 'CPU:0: 0.0, CPU:1: 2.0' in process['manual in one']


def test_reads_of_a_process_are_warned_of(processes_found):
  for rank, found in enumerate(processes_found[0]):
    before, messages = found['warnings']
    assert before == []
    assert len(messages) == 1
    assert f'that of process {rank} of 3' in messages[0]


def test_replicas_agree(replicas_found):
  assert len(replicas_found) == _REPLICAS
  check_numbers(replicas_found, devices=_REPLICAS, processes=1)


def test_reads_of_a_replica_are_warned_of(replicas_found):
  replicas = []
  for found in replicas_found:
    before, messages = found['warnings']
    assert before == []
    replicas += [message.partition(' of 4, on ')[0] for message in messages]
  prefix = 'item reads a value that is not global: it is that of replica '
  assert sorted(replicas) == [f'{prefix}{i}' for i in range(_REPLICAS)]
