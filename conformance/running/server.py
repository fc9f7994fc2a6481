"""The process that workers are forked from: it has no runtime yet.

    run <-> server: {"case", "parts", ...}, with a socket and a file for output
    worker -> run, over that socket: {"pid"}, then {"begin"}, {"result"} of each
        part, or {"error"}
    run -> worker, over it: {"where"}; worker -> run: {"calls"}
    server -> run, over it too: {"exit"}, the last
    run -> server: {"kill": pid}; the end of the connection ends all
"""

from __future__ import annotations

import contextlib
import gc
import os
import selectors
import signal
import socket
import sys
from typing import Any, Optional

from .packets import receive, send

# Behind the number of the socket, where workers need it.
WITH_TORCH_XLA = 'torch_xla'


def main(control: socket.socket) -> Optional[tuple[dict[str, Any], Any]]:
  """Serves until `control` ends.

  Returns:
    In a worker: the request and its socket, for the caller to run outside of
    this frame; None when the server ends.
  """
  send(control, {'ready': True})
  gc.freeze()  # What is there stays: no collection in a worker looks at it.
  workers: dict[int, socket.socket] = {}
  with selectors.DefaultSelector() as selector:
    selector.register(control, selectors.EVENT_READ)
    while True:
      for key, _ in selector.select():
        if key.fileobj is not control:
          selector.unregister(key.fileobj)
          os.close(key.fd)
          _reap(key.data, workers)
          continue
        request, files = receive(control)
        if request is None:
          for pid in workers:
            _kill(pid)
          return None
        if 'kill' in request:
          if request['kill'] in workers:
            _kill(request['kill'])
          continue
        channel = socket.socket(fileno=files[0])
        pid = os.fork()
        if not pid:
          control.close()
          for other in workers.values():
            other.close()
          _become_worker(files[1])
          send(channel, {'pid': os.getpid()})
          return request, channel
        os.close(files[1])
        workers[pid] = channel
        selector.register(os.pidfd_open(pid), selectors.EVENT_READ, pid)


def _become_worker(output: int) -> None:
  os.setsid()
  nothing = os.open(os.devnull, os.O_RDONLY)
  for number, file in enumerate((nothing, output, output)):
    os.dup2(file, number)
  os.close(nothing)
  os.close(output)


def _reap(pid: int, workers: dict[int, socket.socket]) -> None:
  _kill(pid)  # What it has started; its own end is still to be collected.
  _, status = os.waitpid(pid, 0)
  with contextlib.suppress(OSError), workers.pop(pid) as channel:
    send(channel, {'exit': os.waitstatus_to_exitcode(status)})


def _kill(pid: int) -> None:
  """Ends a worker that was not waited for yet, and what it has started."""
  with contextlib.suppress(ProcessLookupError):
    os.killpg(pid, signal.SIGKILL)


if __name__ == '__main__':
  # Imported once, for all workers.
  if sys.argv[2:] == [WITH_TORCH_XLA]:
    import torch_xla.distributed.spmd  # noqa: F401
  from torch_xla_conformance.running import worker
  # An interrupt is for the run, which ends this process by its connection.
  signal.signal(signal.SIGINT, signal.SIG_IGN)
  work = main(socket.socket(fileno=int(sys.argv[1])))
  if work is not None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    worker.run(*work)
