"""Runs the probe in a child process, so that its end is a finding, not ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from typing import IO, Optional

from ..ended_process import last_words, signal_name
from .report import Finding, Diagnosis, Status
from .variables import Environment

_SERVE = ('import sys\n'
          'from torch_xla.shardy.doctor import child\n'
          'child.serve(int(sys.argv[1]))\n')
_KILL_SECONDS = 10


def serve(descriptor: int) -> None:
  """The child's side: probes in SPMD, and tells over `descriptor`.

  Each line is a JSON object: {"step": name} before a step, {"finding": ...}
  after it.
  """
  import torch_xla.runtime as xr

  from . import device_probe
  with os.fdopen(descriptor, 'w') as out:

    def tell(**message) -> None:
      out.write(json.dumps(message) + '\n')
      out.flush()

    xr.use_spmd()
    for finding in device_probe.run(lambda step: tell(step=step)):
      tell(finding=finding.to_dict())


def probe_in_child(
    environ: Environment,
    seconds: float,
    on_step: Callable[[str], None] = lambda step: None) -> Diagnosis:
  """Runs the probe in a new process with the environment `environ`.

  Args:
    environ: all that the process gets.
    seconds: after so long it is ended, with all that it started.
    on_step: is told each step as the child takes it up.

  Returns:
    One finding for the process, and those of the steps that it finished.
  """
  findings: list[Finding] = []
  last_step = 'import'
  with tempfile.TemporaryFile() as log, _child(environ, log) as (child, read):
    deadline = time.monotonic() + seconds
    on_step(last_step)
    for line in _lines(read, deadline):
      message = json.loads(line)
      if 'step' in message:
        last_step = message['step']
        on_step(last_step)
      else:
        findings.append(Finding.from_dict(message['finding']))
    status = _wait(child, deadline)
    tail = last_words(log)
  end = _judge_end(status, last_step, seconds, tail)
  return Diagnosis((end, *findings))


@contextlib.contextmanager
def _child(environ: Environment,
           log: IO[bytes]) -> Iterator[tuple[subprocess.Popen, int]]:
  """A child that probes, and the descriptor on which it tells."""
  read, write = os.pipe()
  try:
    try:
      child = subprocess.Popen([sys.executable, '-c', _SERVE,
                                str(write)],
                               env=dict(environ),
                               pass_fds=(write,),
                               stdin=subprocess.DEVNULL,
                               stdout=log,
                               stderr=log,
                               start_new_session=True)
    finally:
      os.close(write)
    try:
      yield child, read
    finally:
      # The whole group: a plugin may have started processes that hold devices.
      if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
          child.wait(_KILL_SECONDS)
  finally:
    os.close(read)


def _lines(descriptor: int, deadline: float) -> Iterator[str]:
  """Whole lines from `descriptor` until its end or the deadline."""
  pending = b''
  with selectors.DefaultSelector() as selector:
    selector.register(descriptor, selectors.EVENT_READ)
    while selector.select(max(0, deadline - time.monotonic())):
      data = os.read(descriptor, 65536)
      if not data:
        return
      *lines, pending = (pending + data).split(b'\n')
      yield from (line.decode() for line in lines)


def _wait(child: subprocess.Popen, deadline: float) -> Optional[int]:
  """The child's exit status; None if it did not end in time."""
  try:
    return child.wait(max(0.1, deadline - time.monotonic()))
  except subprocess.TimeoutExpired:
    return None


def _judge_end(status: Optional[int], step: str, seconds: float,
               tail: str) -> Finding:
  make = lambda *rest: Finding('probe.process', *rest)
  ending = f'; it said last: {tail}' if tail else ''
  if status == 0:
    return make(Status.OK, 'the probe ran to its end')
  if status is None:
    return make(
        Status.ERROR, f'no end after {seconds:g} s, in the step {step}{ending}',
        'the device may be missing or held by another process; without a '
        'metadata server TPU_SKIP_MDS_QUERY=1 spares the wait, and --timeout '
        'gives more time')
  if status < 0:
    return make(
        Status.ERROR,
        f'killed by {signal_name(-status)} in the step {step}{ending}',
        'the runtime crashed: see the findings on device, plugin and '
        'environment')
  return make(Status.ERROR, f'exit status {status} in the step {step}{ending}',
              'see the findings on device, plugin and environment')
