"""Starts `torch-xla-conformance`, or `python -m torch_xla_conformance`."""

from __future__ import annotations

import sys

from . import command, options
from .shared import parser


def main() -> int:
  """Runs the command line; returns its exit status."""
  return parser.status_of(_run)


def _run() -> int:
  own = parser.Parser(
      '',
      options.DESCRIPTION,
      options.EPILOG,
      options.ENDS,
      program='torch-xla-conformance')
  options.add_options(own)
  return command.run(own, own.parse(sys.argv[1:]))
