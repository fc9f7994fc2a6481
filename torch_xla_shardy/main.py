"""Starts a command: `torch-xla-shardy`, or `python -m torch_xla.shardy`."""

from __future__ import annotations

from collections.abc import Sequence
import difflib
import gc
import importlib
import importlib.util
import os
import runpy
import sys
from typing import Optional

from . import commands
from .parser import Parser, PROGRAM, status_of

_DESCRIPTION = '''
Checks, explains and compiles what torch_xla does with Shardy and V2 shardings.
'''
_EPILOG = f'''
`{PROGRAM} COMMAND --help` says more of each. NO_COLOR=1 and FORCE_COLOR=1 say
whether there are colours, and COLUMNS how wide a line is, where a terminal does
not.
'''


def main(arguments: Optional[Sequence[str]] = None) -> int:
  """Runs a command line; returns its exit status."""
  if is_process := arguments is None:
    gc.disable()
  given = sys.argv[1:] if arguments is None else arguments
  return status_of(lambda: _run(given, is_process))


def _run(arguments: Sequence[str], is_process: bool) -> int:
  name, *rest = arguments or ['']
  if name in ('-h', '--help'):
    _all().print_help()
    return 0
  if name == '--version':
    print(f'{PROGRAM} {_version()}')
    return 0
  known = commands.names()
  if name not in known:
    near = difflib.get_close_matches(name, known, 1)
    _all().error(f'there is no command {name!r}' + (
        f': did you mean {near[0]}?' if near else f', but {", ".join(known)}')
                 if name else f'name a command: {", ".join(known)}')
  module, parser = commands.module(name), commands.parser(name)
  if missing := getattr(module, 'MISSING', ''):
    parser.error(missing.format(version=_version()))
  options = parser.parse(rest)
  for variable, value in getattr(module, 'ENVIRONMENT', {}).items():
    os.environ.setdefault(variable, value)
  command = importlib.import_module(module.IMPLEMENTATION)
  if is_process:  # What was imported stays, and forks share its memory.
    gc.freeze()
    gc.enable()
  status: int = command.run(parser, options)
  return status


def _all() -> Parser:
  parser = Parser(
      '', _DESCRIPTION, _EPILOG, usage='%(prog)s COMMAND [OPTIONS...]')
  parser.add_argument(
      '--version', action='store_true', help='print the version, and stop')
  group = parser.add_argument_group('commands')
  for name in commands.names():
    group.add_argument(name, help=commands.summary(name))
  return parser


def _version() -> str:
  """torch_xla's, which is not imported."""
  spec = importlib.util.find_spec('torch_xla')
  folders = spec.submodule_search_locations if spec else None
  if not folders:
    return '(torch_xla is not installed)'
  text = runpy.run_path(os.path.join(folders[0], 'version.py'))['__version__']
  return str(text)
