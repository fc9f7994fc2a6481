"""Metrics over real processes, and over the replicas of one.

XLA:CPU has no collectives between processes, so processes are joined by
`torch.distributed` with gloo, and replicas run as threads, which is how
`torch_xla.launch` spreads over CPU devices.
"""

from concurrent.futures import ThreadPoolExecutor
import json
import math
import subprocess
import sys

from processes import clean_environment
import pytest

_SECONDS = 200
_SHARDY = {'XLA_USE_SHARDY': '1'}

# Each process or replica has a batch of 5 rows, 2 rows or none, by its number.
_COMMON = '''
import collections, json, sys, threading, warnings
import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.runtime as xr
from torch_xla.distributed.spmd import host_reads, metrics

# By thread: the replicas of a process share its warnings.
shown_in = collections.defaultdict(list)
warnings.simplefilter('always', host_reads.LocalReadWarning)
warnings.showwarning = lambda message, category, *_: shown_in[
    threading.get_ident()].append(str(message))

def batch(number):
  generator = torch.Generator().manual_seed(number)
  return torch.randn(max(0, 5 - 3 * number), 3,
                     generator=generator)

def described(metric):
  return [metric.item(), metric.count, len(metric.proof.devices),
          metric.proof.processes]

def error_of(function, *args):
  try:
    return function(*args).item()
  except Exception as e:
    return f'{type(e).__name__}: {e}'

def results(number, to_device=lambda t: t.to('xla')):
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
  with host_reads.watch_host_reads():
    metrics.global_sum(t).item()
    before = list(shown_in[threading.get_ident()])
    to_device(torch.ones(1)).item()
  found['warnings'] = [before, shown_in[threading.get_ident()]]
  return found
'''

_RANK = _COMMON + '''
import os
import torch.distributed as dist
rank, ranks = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])
to_device = lambda t: t.to('xla')
if os.environ['TEST_SPMD'] == '1':
  import numpy as np
  import torch_xla.distributed.spmd as xs
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(2), (2,), ('data',))
  def to_device(t):
    t = t.to('xla')
    if t.numel():
      xs.mark_sharding(t, mesh, ('data',) + (None,) * (t.dim() - 1))
    return t
lonely = error_of(metrics.global_sum, to_device(torch.ones(2)))
dist.init_process_group(
    'gloo', init_method='file://' + sys.argv[1], rank=rank, world_size=ranks)
found = results(rank, to_device)
found['lonely'] = lonely
found['all_reduce'] = xm.all_reduce(
    'sum', torch.ones(1, device='xla') * rank).item()
t = to_device(torch.ones(2))
found['mixed'] = error_of(
    metrics.global_max if rank == 1 else metrics.global_sum, t)
if os.environ['TEST_SPMD'] == '1':
  if rank == 1:
    t = xs.enable_manual_sharding(
        torch.arange(2.).to('xla'), ('data',), mesh=mesh).global_tensor * 2
  found['manual in one'] = error_of(metrics.global_sum, t)
print('RESULT', json.dumps(found))
dist.destroy_process_group()
'''

_REPLICAS = _COMMON + '''
def replica(index):
  found = results(xr.global_ordinal())
  # One write, or the threads' lines mix.
  sys.stdout.write(f'RESULT {json.dumps(found)}\\n')

if __name__ == '__main__':
  torch_xla.launch(replica)
'''


def results_in(done):
  assert done.returncode == 0, (done.returncode, done.stderr[-4000:])
  return [
      json.loads(line.removeprefix('RESULT '))
      for line in done.stdout.splitlines()
      if line.startswith('RESULT ')
  ]


def run(path, args, variables):
  return subprocess.run([sys.executable, path, *args],
                        env=clean_environment(PJRT_DEVICE='CPU', **variables),
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                        text=True,
                        timeout=_SECONDS,
                        check=False)


@pytest.fixture(
    scope='module',
    params=[('0', 1, {}), ('1', 2, _SHARDY)],
    ids=['one device each', 'spmd, Shardy'])
def processes_found(request, tmp_path_factory):
  """What each of three processes found, and the devices that each has."""
  spmd, devices, mode = request.param
  directory = tmp_path_factory.mktemp('ranks')
  script = directory / 'rank.py'
  script.write_text(_RANK)

  def run_rank(rank):
    return run(
        script, [str(directory / 'store')],
        dict(
            mode,
            CPU_NUM_DEVICES=str(devices),
            TEST_SPMD=spmd,
            RANK=str(rank),
            WORLD_SIZE='3'))

  with ThreadPoolExecutor(3) as pool:
    found = [results_in(done)[0] for done in pool.map(run_rank, range(3))]
  return found, devices


@pytest.fixture(
    scope='module', params=[{}, _SHARDY], ids=['replicas', 'replicas, Shardy'])
def replicas_found(request, tmp_path_factory):
  """What each of four replicas found, two of which have no data."""
  script = tmp_path_factory.mktemp('replicas') / 'replicas.py'
  script.write_text(_REPLICAS)
  done = run(
      script,
      [],
      # On few cores torch_xla's pool has fewer threads than there are replicas
      # to wait for one another, in the official wheel too.
      dict(request.param, CPU_NUM_DEVICES='4', XLA_THREAD_POOL_SIZE='16'))
  return results_in(done)


def check_numbers(all_found, devices, processes):
  """All found the same, and it is what torch says of all rows together."""
  import torch
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
  check_numbers(found, devices, processes=3)


def test_a_process_on_its_own_is_an_error(processes_found):
  for found in processes_found[0]:
    assert found['lonely'].startswith('LocalValueError: WORLD_SIZE=3')
    assert 'init_process_group' in found['lonely']


def test_official_all_reduce_does_not_leave_the_process(processes_found):
  # Why the metrics do not rely on it.
  assert [f['all_reduce'] for f in processes_found[0]] == [0, 1, 2]


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
  assert len(replicas_found) == 4
  check_numbers(replicas_found, devices=4, processes=1)


def test_reads_of_a_replica_are_warned_of(replicas_found):
  replicas = []
  for found in replicas_found:
    before, messages = found['warnings']
    assert before == []
    replicas += [message.partition(' of 4, on ')[0] for message in messages]
  prefix = 'item reads a value that is not global: it is that of replica '
  assert sorted(replicas) == [f'{prefix}{i}' for i in range(4)]
