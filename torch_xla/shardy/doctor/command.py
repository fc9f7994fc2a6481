"""Does `torch-xla-shardy doctor`: is this environment fit for torch_xla?"""

from __future__ import annotations

import argparse
import os

from torch_xla_shardy import terminal
from torch_xla_shardy.parser import Parser, write

from .child import probe_in_child
from ..process_environment import started_with
from .contract import check
from .report import Diagnosis, Status


def run(parser: Parser, options: argparse.Namespace) -> int:
  """Runs the command; returns its exit status."""
  report = check()
  if not options.no_probe:
    # As a program started here would have it, not as importing changed it.
    environ = started_with() or os.environ
    report += probe_in_child(environ, options.timeout)
  diagnosis = report if not options.quiet else Diagnosis(
      tuple(
          f for f in report.findings
          if f.status in (Status.WARNING, Status.ERROR)))
  if diagnosis.findings:
    terminal.show(str(diagnosis))
  if options.json:
    write(options.json, f'{report.to_json()}\n')
  return 0 if report.ok else 1
