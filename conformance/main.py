"""Starts `torch-xla-conformance`, or `python -m torch_xla_conformance`."""

from __future__ import annotations

from collections.abc import Sequence
import sys
from typing import Optional

from . import command, options
from .shared import parser

_PROGRAM = 'torch-xla-conformance'


def main(arguments: Optional[Sequence[str]] = None) -> int:
  """Runs a command line; returns its exit status."""
  return parser.status_of(lambda: _run(sys.argv[1:]
                                       if arguments is None else arguments))


def _run(arguments: Sequence[str]) -> int:
  own = parser.Parser(
      '', options.DESCRIPTION, options.EPILOG, options.ENDS, program=_PROGRAM)
  options.add_options(own)
  return command.run(own, own.parse(arguments))
