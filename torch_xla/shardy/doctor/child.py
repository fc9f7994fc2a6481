"""Runs the probe in a child process, so that its end is a finding, not ours."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from typing import Optional

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
      print(json.dumps(message), file=out, flush=True)

    xr.use_spmd()
    for finding in device_probe.run(lambda step: tell(step=step)):
      tell(finding=finding.to_dict())


def probe_in_child(environ: Environment, seconds: float) -> Diagnosis:
  """Runs the probe in a new process with the environment `environ`.

  Args:
    environ: all that the process gets.
    seconds: after so long it is ended, with all that it started.

  Returns:
    One finding for the process, and those of the steps that it finished.
  """
  with tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as log:
    status = _run(environ, seconds, told.fileno(), log.fileno())
    told.seek(0)
    messages = [json.loads(line) for line in told if line.endswith(b'\n')]
    tail = last_words(log)
  steps = ['import', *(m['step'] for m in messages if 'step' in m)]
  return Diagnosis(
      (_judge_end(status, steps[-1], seconds, tail),
       *(Finding.from_dict(m['finding']) for m in messages if 'finding' in m)))


def _run(environ: Environment, seconds: float, sink: int,
         log: int) -> Optional[int]:
  """The exit status of a child that probes; None if it did not end in time."""
  child = subprocess.Popen(
      [sys.executable, '-c', _SERVE, str(sink)],
      env=dict(environ),
      pass_fds=(sink,),
      stdin=subprocess.DEVNULL,
      stdout=log,
      stderr=log,
      start_new_session=True)
  try:
    return child.wait(seconds)
  except subprocess.TimeoutExpired:
    return None
  finally:
    # The whole group: a plugin may have started processes that hold devices.
    if child.poll() is None:
      os.killpg(child.pid, signal.SIGKILL)
      with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_KILL_SECONDS)


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
