"""Two hosts of a pod, of four devices each: the same script in two processes."""

from __future__ import annotations

import gc
import os
from pathlib import Path
import signal
import subprocess
import sys
import time
from typing import Any

import processes
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


def _ask_the_plugin_of_xla() -> tuple[list[int], list[int]]:
  """The processes of its devices, and how often it used the store of keys."""
  import ctypes
  from torch_xla_conformance.pjrt import table
  from torch_xla.shardy.door.device_plugins import XlaCpuPlugin
  plugin = table.Table.open(XlaCpuPlugin().library_path())
  used: list[int] = []
  function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(used.append)
  callback = ctypes.cast(function, ctypes.c_void_p).value
  settings = {'cpu_device_count': 4, 'node_id': 1, 'num_nodes': 2}
  with table.named_values(settings) as (options, count):
    client = plugin.call(
        'Client_Create',
        create_options=options,
        num_options=count,
        kv_get_callback=callback,
        kv_put_callback=callback,
        kv_try_get_callback=callback).client
  told = plugin.call('Client_Devices', client=client)
  of = []
  for device in table.pointers(told.devices, told.num_devices):
    described = plugin.call('Device_GetDescription', device=device)
    of.append(
        plugin.call(
            'DeviceDescription_ProcessIndex',
            device_description=described.device_description).process_index)
  return of, used


def test_the_plugin_of_xla_is_one_process_whatever_it_is_given() -> None:
  # Else it can take the place of jaxlib's client in this folder.
  called = processes.call(_ask_the_plugin_of_xla, PJRT_DEVICE='CPU')
  assert called.value == ([0] * 4, [])


_SCRIPT = '''
import hashlib, os, sys
sys.path[:0] = sys.argv[3:]
import hosts, jax, two_hosts_test
host, port = map(int, sys.argv[1:3])
hosts.join(host, port)
sent = two_hosts_test.train(host)['sent']
print(hashlib.sha256(repr(sent).encode()).hexdigest())
jax.distributed.shutdown()
sys.stdout.flush()
os._exit(0)  # The table's functions are Python's, which ends before torch_xla.
'''


@pytest.mark.nightly
def test_processes_with_other_hash_seeds_send_the_same() -> None:
  port = str(hosts.free_port())
  folders = [Path(__file__).parent, Path(processes.__file__).parent]
  started = [
      subprocess.Popen(
          [sys.executable, '-c', _SCRIPT,
           str(host), port, *map(str, folders)],
          env=processes.clean_environment(
              **hosts.environment(**_SHARDY, PYTHONHASHSEED=str(host + 1))),
          stdout=subprocess.PIPE,
          text=True) for host in range(hosts.COUNT)
  ]
  first, second = (s.communicate()[0].splitlines()[-1] for s in started)
  assert [s.returncode for s in started] == [0, 0]
  assert len(first) == 64 and first == second


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
