"""`python -m torch_xla.shardy.doctor`: is this environment fit for torch_xla?
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Optional

from .child import probe_in_child
from ..process_environment import started_with
from .contract import check

_PROBE_SECONDS = 120.0


def _seconds(text: str) -> float:
  try:
    value = float(text)
  except ValueError:
    value = 0.0
  if not 0 < value < float('inf'):
    raise argparse.ArgumentTypeError(f'{text!r} is not a positive number')
  return value


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
      prog='python -m torch_xla.shardy.doctor',
      description='Checks versions, environment, mode and plugin, then runs on '
      'every device, in SPMD and in a child process, and compares the numbers.',
      epilog='Exit status: 0 without errors, 1 with errors, 2 for wrong usage.')
  parser.add_argument(
      '--json', action='store_true', help='print JSON instead of a table')
  parser.add_argument(
      '--no-probe',
      action='store_true',
      help='check only, and start no runtime')
  parser.add_argument(
      '--timeout',
      type=_seconds,
      default=_PROBE_SECONDS,
      metavar='SECONDS',
      help='end the probe after so long (default: %(default)g)')
  return parser


def _progress(step: str) -> None:
  print(f'doctor: probe: {step}', file=sys.stderr, flush=True)


def main(arguments: Optional[list[str]] = None) -> int:
  options = _parser().parse_args(arguments)
  report = check()
  if not options.no_probe:
    # As a program started here would have it, not as importing changed it.
    environ = started_with() or os.environ
    report += probe_in_child(environ, options.timeout, _progress)
  print(report.to_json() if options.json else report)
  return 0 if report.ok else 1


if __name__ == '__main__':
  sys.exit(main())
