"""Parses `cache`."""

from __future__ import annotations

from ..parser import Parser

SUMMARY = 'list, verify or clear a compilation cache'
DESCRIPTION = '''
Looks into a directory that torch_xla.shardy.cache.use() keeps compiled programs
in. `list` says how much there is of what rules; `verify` reads each entry, and
finds those that are not what was written; `clear` deletes all entries.
'''
ENDS = {1: 'with damaged entries'}
IMPLEMENTATION = 'torch_xla.shardy.cache.command'


def add_options(parser: Parser) -> None:
  parser.add_argument(
      'action', choices=('list', 'verify', 'clear'), help='what to do')
  parser.add_argument(
      'root', metavar='DIRECTORY', help='as cache.use() was given it')
  parser.add_reports()
