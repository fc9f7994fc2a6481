"""torch_xla's store of keys and values, through the door to a plugin."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
import time
from typing import Any

import pytest

pytest.importorskip('jax', reason='needs jax: its CPU client has collectives')

import hosts  # pylint: disable=wrong-import-position
from jaxlib_devices import Devices  # pylint: disable=wrong-import-position

pytestmark = pytest.mark.slow

_WORDS = ctypes.c_size_t
_MILLISECONDS = 60_000


def _call(callback: int, *words: int) -> list[int]:
  """Calls one of a client's callbacks; the words of its arguments' struct."""
  arguments = (_WORDS * (len(words) + 2))(8 * (len(words) + 2), 0, *words)
  failed = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(callback)(
      ctypes.addressof(arguments))
  assert not failed
  return list(arguments)[2:]


def _exchange(args: Any, host: int) -> bytes:
  """What host 1 gets of what host 0 puts, as a plugin does when it starts."""
  key, value = (ctypes.create_string_buffer(t) for t in (b'key', b'value'))
  of_key = ctypes.addressof(key), 3
  if host == 0:
    _call(args.kv_put_callback, *of_key, ctypes.addressof(value), 5, 0,
          args.kv_put_user_arg)
    return value.value
  got = _call(args.kv_get_callback, *of_key, _MILLISECONDS, 0,
              args.kv_get_user_arg, 0, 0, 0)
  return ctypes.string_at(got[5], got[6])


class _Exchanging(Devices):
  """The client of a plugin that asks for the store when it starts."""
  exchanged = b''

  def Client_Create(self, args: Any) -> dict[str, int]:
    created = super().Client_Create(args)
    self.exchanged = _exchange(args, self.process)
    return created


def _end_last(host: int, other: Path) -> None:
  """Has host 0, which runs the store, outlive host 1: that ends with it."""
  import jax
  if host != 0:
    other.write_text(str(os.getpid()), encoding='ascii')
  jax.distributed.shutdown()  # Where each waits for the other.
  end = time.monotonic() + _MILLISECONDS / 1000
  while host == 0 and Path('/proc', other.read_text()).exists():
    assert time.monotonic() < end, 'host 1 does not end'
    time.sleep(.01)


def _start(host: int, port: int, second_port: int,
           other: Path) -> tuple[int, bytes]:
  from torch_xla.experimental import plugins
  import torch_xla.runtime as xr
  os.environ.update(
      PJRT_DEVICE='HOSTS',
      PJRT_DYNAMIC_PLUGINS='1',
      RANK=str(host),
      WORLD_SIZE=str(hosts.COUNT),
      MASTER_ADDR='127.0.0.1',
      XLA_COORDINATOR_PORT=str(port))

  class Plugin(plugins.DevicePlugin):

    def library_path(self) -> str:
      return hosts.library()

    def requires_xla_coordinator(self) -> bool:
      return True

  plugins.register_plugin('HOSTS', Plugin())
  devices = hosts.join(host, second_port, _Exchanging)
  count = xr.process_count()
  _end_last(host, other)
  return count, devices.exchanged


def test_a_plugin_gets_what_another_host_put(tmp_path) -> None:
  called = hosts.call(
      _start,
      hosts.free_port(),
      hosts.free_port(),
      tmp_path / 'host1',
      XLA_USE_SHARDY='1')
  assert [c.value for c in called] == [(hosts.COUNT, b'value')] * hosts.COUNT
