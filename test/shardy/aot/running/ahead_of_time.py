"""Runs scripts ahead of time in test processes, which imported torch_xla."""

from __future__ import annotations

import os
from pathlib import Path
import runpy
import sys
import tempfile
from typing import Any

import processes
from torch_xla.shardy.aot import launcher, settings, topologies
from torch_xla.shardy.aot.report import AotReport
from torch_xla.shardy.aot.reporting import json_form
from torch_xla.shardy.aot.running import plugin, session

SCRIPTS = Path(__file__).resolve().parent / 'scripts'


def report_of(script: str,
              *arguments: str,
              topology: str = 'v5e:2x4',
              wanted: dict[str, Any] | None = None,
              **variables: str) -> tuple[AotReport, str, str]:
  """The report of a script of this folder, and what it printed.

  Args:
    wanted: fields of `Settings`.
    variables: of the environment.
  """
  called = processes.call(
      run,
      script,
      arguments,
      topology,
      wanted or {},
      PJRT_DEVICE='TPU',
      **variables)
  return called.value, called.stdout, called.stderr


def run(script: str, arguments: tuple[str, ...], topology: str,
        wanted: dict[str, Any]) -> AotReport:
  """Runs a script as `bootstrap` does, in this process."""
  path = str(SCRIPTS / script)
  name = topologies.parse(topology)
  with tempfile.TemporaryDirectory() as folder:
    os.environ.update(
        settings.environment({}, name, wanted.get('host', 0),
                             plugin.LIBRARY_PATH, folder))
    asked = settings.Settings(path, False, arguments, topology,
                              launcher.compiler(),
                              os.path.join(folder, 'report.json'), **wanted)
    begun = session.begin(asked.to_json(), None)
    sys.argv[:] = [path, *arguments]
    ending = None
    try:
      runpy.run_path(path, run_name='__main__')
    except BaseException as e:  # pylint: disable=broad-except
      ending = e
    begun.end(ending)
    report, = json_form.read(asked.report)
  return report
