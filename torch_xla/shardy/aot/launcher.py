"""Runs a script ahead of time in a process of its own, and reads its report."""

from __future__ import annotations

from collections.abc import Mapping
import contextlib
import dataclasses
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile

from . import settings, topologies
from ..door import extras
from ..ended_process import how_ended
from ..process_environment import interpreter_flags, started_with
from .errors import AotError
from .reporting import json_form
from .running import plugin
from .report import INTERRUPTED, AotReport, RUNNING

_BOOTSTRAP = os.path.join(os.path.dirname(__file__), 'running', 'bootstrap.py')
_PATIENCE_SECONDS = 20
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LIBRARY_VARIABLE = 'TPU_LIBRARY_PATH'


class CannotStartError(AotError):
  """The script did not start; the reason is on standard error."""


class FailedEarlyError(AotError):
  """The script failed before it compiled anything."""


def compiler() -> str:
  """The path of the TPU's compiler: TPU_LIBRARY_PATH, or the package libtpu's.
  """
  path = _environment().get(_LIBRARY_VARIABLE)
  if path:
    if not os.path.isfile(path):
      raise AotError(f'{_LIBRARY_VARIABLE}={path} is no file')
    return path
  spec = importlib.util.find_spec('libtpu')
  folders = spec.submodule_search_locations if spec else None
  for folder in folders or ():
    path = os.path.join(folder, 'libtpu.so')
    if os.path.isfile(path):
      return path
  raise AotError("libtpu, which has the TPU's compiler, is not installed: "
                 f'{extras.command("tpu")}')


def run(wanted: settings.Settings) -> AotReport:
  """Runs the script and waits for its end; its output goes where ours does.

  Args:
    wanted: its `report` is chosen here.

  Raises:
    CannotStartError, FailedEarlyError: there is no report.
    TopologyError: the topology is not known.
  """
  topology = topologies.parse(wanted.topology)
  with tempfile.TemporaryDirectory(prefix='aot-') as folder:
    wanted = dataclasses.replace(
        wanted, report=os.path.join(folder, 'report.json'))
    command = [
        sys.executable, *interpreter_flags(), _BOOTSTRAP,
        wanted.to_json()
    ]
    status, interrupted = _wait_for(
        subprocess.Popen(
            command,
            env=settings.environment(_environment(), topology, wanted.host,
                                     plugin.LIBRARY_PATH, folder)))
    if not os.path.exists(wanted.report):
      if interrupted:
        raise KeyboardInterrupt
      if status != settings.CANNOT_START:
        raise FailedEarlyError(
            f'{wanted.script} failed before it compiled anything (the process '
            f'{how_ended(status)})')
      raise CannotStartError(
          f'{wanted.script} did not come to compile anything for '
          f'{wanted.topology}')
    report, = json_form.read(wanted.report)
  if report.ended != RUNNING:
    return report
  how = INTERRUPTED if interrupted else f'the process {how_ended(status)}'
  return dataclasses.replace(report, ended=how, failed=True)


def _wait_for(child: subprocess.Popen) -> tuple[int, bool]:
  """The exit status of `child`, and whether somebody interrupted it.

  When this process is asked to end, so is the child, first in its own way.
  """

  def interrupt(number, frame):
    raise KeyboardInterrupt

  before = {n: signal.signal(n, interrupt) for n in _ENDING}
  interrupted = False
  try:
    child.wait()
  except KeyboardInterrupt:
    interrupted = True
    # From a terminal it has the signal already.
    for patience in (1, _PATIENCE_SECONDS):
      with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(patience)
        break
      child.send_signal(signal.SIGINT)
  finally:
    for number, handler in before.items():
      signal.signal(number, handler)
    if child.poll() is None:
      child.kill()
      child.wait()
  return child.returncode, interrupted


def _environment() -> Mapping[str, str]:
  """The variables of a script started here, as they were before imports."""
  return started_with() or os.environ
