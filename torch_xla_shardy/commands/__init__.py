"""The commands, a module each.

A module has SUMMARY, a line; DESCRIPTION; IMPLEMENTATION, the module whose
`run(parser, options)` does it; `add_options(parser)`; and, where there is more to
say, USAGE, EPILOG and ENDS, what an exit status means. ENVIRONMENT is what holds
where the user's says nothing. One that another distribution has says SUMMARY,
ELSEWHERE, the module there that has the rest, and MISSING, what is told where
that is not installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from typing import Any

from ..parser import Parser


def names() -> list[str]:
  return sorted(module.name for module in pkgutil.iter_modules(__path__))


def summary(name: str) -> str:
  return str(_own(name).SUMMARY)


def module(name: str) -> Any:
  """The module of a command."""
  own = _own(name)
  elsewhere = getattr(own, 'ELSEWHERE', '')
  if elsewhere and importlib.util.find_spec(elsewhere.partition('.')[0]):
    return importlib.import_module(elsewhere)
  return own


def _own(name: str) -> Any:
  return importlib.import_module(f'{__name__}.{name}')


def parser(name: str) -> Parser:
  """The parser of a command."""
  command = module(name)
  new = Parser(name, command.DESCRIPTION, getattr(command, 'EPILOG', ''),
               getattr(command, 'ENDS', None), getattr(command, 'USAGE', None))
  command.add_options(new)
  return new
