"""Several hosts of a pod: processes that compute together, each with a client.

XLA's CPU plugin makes clients of one process only, whatever options and key-value
store it is given. The CPU client in jaxlib can be one of several, with
collectives over TCP by gloo; here it is behind a PJRT table.
"""

from __future__ import annotations

from collections.abc import Callable
import concurrent.futures
import functools
import hashlib
import os
from pathlib import Path
import socket
import subprocess
import tempfile
import traceback
from typing import Any

from answered_table import AnsweredTable, Handles
from jaxlib_buffers import Buffers
from jaxlib_devices import Devices
from jaxlib_programs import Programs
import processes
import torch_xla

COUNT, DEVICES_EACH = 2, 4
_SOURCE = Path(__file__).with_name('given_table.c')
_FOLDER = Path(__file__).parents[2] / 'build/given_table'
_COMMAND = ('gcc', '-std=c11', '-Wall', '-Wextra', '-Werror', '-O1', '-fPIC',
            '-shared', '-fvisibility=hidden')


def library() -> str:
  """The plugin's library, compiled unless there is one of the same source."""
  digest = hashlib.sha256(repr(_COMMAND).encode() + _SOURCE.read_bytes())
  path = _FOLDER / f'libgiven_table-{digest.hexdigest()[:16]}.so'
  if not path.exists():
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_FOLDER) as scratch:
      made = Path(scratch, 'plugin.so')
      subprocess.run([*_COMMAND, '-o', made, _SOURCE], check=True)
      os.replace(made, path)
  return str(path)


def environment(**variables: str) -> dict[str, str]:
  """What a host's process is started with."""
  return {'PJRT_DEVICE': 'LIBRARY', 'PJRT_LIBRARY_PATH': library(), **variables}


def free_port() -> int:
  with socket.socket() as listener:
    listener.bind(('127.0.0.1', 0))
    return listener.getsockname()[1]


def join(host: int, port: int, kind: type[Devices] = Devices) -> Devices:
  """Makes this process a host, before its runtime is up; the first is 0."""
  handles = Handles()
  devices = kind(handles, lambda: _connect(host, port))
  AnsweredTable(handles, devices, Buffers(handles, devices),
                Programs(handles,
                         devices)).give_to(os.environ['PJRT_LIBRARY_PATH'])
  return devices


def _connect(host: int, port: int) -> Any:
  """jaxlib's client."""
  import jax
  jax.config.update('jax_platforms', 'cpu')
  jax.config.update('jax_enable_x64', True)
  jax.config.update('jax_num_cpu_devices', DEVICES_EACH)
  jax.config.update('jax_cpu_collectives_implementation', 'gloo')
  jax.distributed.initialize(
      f'127.0.0.1:{port}', COUNT, host, heartbeat_timeout_seconds=10)
  return jax.local_devices()[0].client


def call(function: Callable[..., Any], *arguments: Any,
         **variables: str) -> list[processes.Called]:
  """What a function gives on each host; it is told which it is, and arguments.

  Raises:
    AssertionError: a host did not come to the function's end.
  """
  return _on_each(processes.call, function, arguments, variables)


def ended(function: Callable[..., Any], *arguments: Any,
          **variables: str) -> list[subprocess.CompletedProcess[str]]:
  """How each host ended that was given a function as its script."""

  def run(*job: Any, **of_process: str) -> subprocess.CompletedProcess[str]:
    return processes.ended(functools.partial(*job), **of_process)

  return _on_each(run, function, arguments, variables)


def _on_each(run: Callable[..., Any], function: Callable[..., Any],
             arguments: tuple[Any, ...], variables: dict[str,
                                                         str]) -> list[Any]:
  port, settings = free_port(), environment(**variables)
  with concurrent.futures.ThreadPoolExecutor(COUNT) as threads:
    hosts = [
        threads.submit(run, _joined, host, port, function, arguments,
                       **settings) for host in range(COUNT)
    ]
    # The first that fails is the cause of what others say.
    first, _ = concurrent.futures.wait(
        hosts, return_when=concurrent.futures.FIRST_EXCEPTION)
    return [host.result() for host in (*first, *hosts)][-COUNT:]


def _joined(host: int, port: int, function: Callable[..., Any],
            arguments: tuple[Any, ...]) -> Any:
  join(host, port)
  try:
    return function(host, *arguments)
  except Exception:  # pylint: disable=broad-except
    # Past jax's own end, which waits minutes for hosts that wait for this one.
    traceback.print_exc()
    torch_xla._prepare_to_exit()
    os._exit(1)
