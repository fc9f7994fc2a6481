"""Parses `doctor`."""

from __future__ import annotations

import argparse

from ..parser import Parser

SUMMARY = 'check the environment, and compute on every device'
DESCRIPTION = '''
Checks versions, environment, mode and plugin, then runs on every device, in SPMD
and in a child process, and compares the numbers.
'''
ENDS = {1: 'with errors'}
IMPLEMENTATION = 'torch_xla.shardy.doctor.command'
_PROBE_SECONDS = 120.0


def add_options(parser: Parser) -> None:
  parser.add_reports()
  parser.flag('--no-probe', 'check only, and start no runtime')
  parser.option('--timeout', 'SECONDS',
                'end the probe after so long (default: %(default)g)', _seconds,
                _PROBE_SECONDS)


def _seconds(text: str) -> float:
  try:
    value = float(text)
  except ValueError:
    value = 0.0
  if not 0 < value < float('inf'):
    raise argparse.ArgumentTypeError(f'{text!r} is not a positive number')
  return value
