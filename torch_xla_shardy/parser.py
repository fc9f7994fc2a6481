"""The parser that the commands share, and the options of several."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
import contextlib
import difflib
from importlib.machinery import ModuleSpec
import os
import pkgutil
import stat
import sys
import textwrap
from typing import Any, NoReturn, Optional, Union

from . import terminal

PROGRAM = 'torch-xla-shardy'
INTERRUPTED = 130  # 128 + SIGINT, as shells have it.

_STDOUT = '-'
_NEAR = .7  # How alike, as difflib has it, a name is that was meant.
_OF_SCRIPT = """%(prog)s [OPTIONS...]
       (SCRIPT | -m MODULE) [ARGUMENTS...]"""
_ENDS = {
    0: 'if all is well',
    1: 'with a finding',
    2: 'for wrong usage',
    3: 'if the script failed',
    INTERRUPTED: 'if interrupted',
}


class OutputError(Exception):
  """Raised where a report cannot be written."""


class _Formatter(argparse.HelpFormatter):
  """Fills paragraphs to the terminal's width, and has headings stand out."""

  def _fill_text(self, text: str, width: int, indent: str) -> str:
    return '\n\n'.join(
        textwrap.fill(
            ' '.join(paragraph.split()),
            width,
            initial_indent=indent,
            subsequent_indent=indent,
            break_on_hyphens=False) for paragraph in text.strip().split('\n\n'))

  def start_section(self, heading: Optional[str]) -> None:
    super().start_section(heading and terminal.bold(heading, sys.stdout))


class Parser(argparse.ArgumentParser):
  """Parses one command; without a name, tells of all."""

  def __init__(self,
               name: str,
               description: str,
               epilog: str = '',
               ends: Optional[Mapping[int, str]] = None,
               usage: Optional[str] = None,
               program: str = PROGRAM):
    """Makes a parser.

    Args:
      epilog: what to know besides, before the exit status.
      ends: what an exit status means, where it says more than that of all;
        empty for one that the command does not have.
    """
    ended = {**_ENDS, **(ends or {})}
    statuses = '; '.join(
        f'{status} {why}' for status, why in sorted(ended.items()) if why)
    super().__init__(
        prog=f'{program} {name}'.rstrip(),
        usage=usage,
        description=description,
        epilog=f'{epilog}\n\nExit status: {statuses}.',
        formatter_class=_Formatter)

  def error(self, message: str) -> NoReturn:
    terminal.show(f'error: {message}', sys.stderr)
    sys.exit(2)

  def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
    """Parses; with `--json -`, standard output is for that alone from now on.
    """
    options, unknown = self.parse_known_args(arguments)
    if unknown:
      # Without the dashes, in which all are alike.
      near = difflib.get_close_matches(
          unknown[0].partition('=')[0].strip('-'),
          [o[2:] for o in self._option_string_actions if o.startswith('--')], 1,
          _NEAR)
      self.error(f'{unknown[0]} is not understood' +
                 (f': did you mean --{near[0]}?' if near else ''))
    if 'module' in options:
      self._given = arguments
      self._choose_script(options)
    if getattr(options, 'json', None) == _STDOUT:
      if not sys.stdout:
        self.error('--json -: standard output is closed')
      sys.stdout.flush()
      # A number is what `open` takes as well; a script's process inherits it.
      options.json = os.dup(1)
      os.set_inheritable(options.json, True)
      os.dup2(2, 1)
    return options

  def _choose_script(self, options: argparse.Namespace) -> None:
    """Puts what `-m` names in the place of a file's name, and looks for it."""
    options.is_module = options.module is not None
    if options.is_module:
      if not options.module:
        self.error('-m needs a module')
      options.script, *options.arguments = options.module
      if missing := _missing_module(options.script):
        self.error(f'there is no module {missing!r}')
    elif options.script and not os.path.isfile(options.script):
      self.error(f'there is no script {options.script!r}')
    elif self._needs_script:
      self.need_script(options)

  def need_script(self, options: argparse.Namespace) -> None:
    """Refuses a command line without a script."""
    if not options.script:
      taken = next((a for a in self._given if a.endswith('.py')), '')
      self.error('there is no script to run' + (
          f': {taken} was taken as the value of an option' if taken else ''))

  def flag(self, name: str, help: str) -> None:
    self.add_argument(name, action='store_true', help=help)

  def option(self,
             name: str,
             metavar: str,
             help: str,
             type: Callable[[str], Any] = str,
             default: Any = None,
             **more: Any) -> None:
    """Adds an option with a value; the arguments are argparse's own."""
    more.update(metavar=metavar, help=help, type=type, default=default)
    self.add_argument(name, **more)

  def repeated_option(self,
                      name: str,
                      metavar: str,
                      help: str,
                      type: Callable[[str], Any] = str) -> None:
    """Adds an option that may be given again; its value is a list."""
    self.option(name, metavar, help, type, [], action='append')

  def add_quiet(self, help: str = 'say only what is wrong') -> None:
    self.add_argument('-q', '--quiet', action='store_true', help=help)

  def add_reports(self, *others: str) -> None:
    """Adds --quiet, --json, and those of --html and --junit in `others`."""
    self.add_quiet('print findings and errors only')
    self.option(
        '--json', 'FILE',
        'write the report as JSON; - for standard output, where nothing '
        'else is then', json_file)
    for name, page in (('html', 'the report as one HTML page'),
                       ('junit', "the findings as JUnit's XML")):
      if name in others:
        self.add_argument(
            f'--{name}', type=output_file, metavar='FILE', help=f'write {page}')

  def add_script(self, required: bool = True) -> None:
    """The script, which `parse` looks for: of what it does not know first."""
    self._needs_script = required
    self.usage = self.usage or _OF_SCRIPT
    self.add_argument(
        'script', nargs='?', metavar='SCRIPT', help='a Python file')
    self.add_argument(
        '-m',
        nargs=argparse.REMAINDER,
        dest='module',
        metavar='MODULE',
        help='a module in place of a file, and its own arguments')
    self.add_argument(
        'arguments',
        nargs=argparse.REMAINDER,
        metavar='ARGUMENTS...',
        help="the script's own")

  def add_require(self) -> None:
    """Adds the option that a report is checked against."""
    self.repeated_option(
        '--require', 'REQUIREMENT',
        "fail unless it holds: 'all-gather bytes<=1GiB', 'programs<=3'; "
        '--require help lists the quantities')


def _missing_module(name: str) -> str:
  """The part that is missing of what `-m NAME` runs; imports nothing.

  Empty also where a package says by itself where its modules are.
  """
  parts = (*name.split('.'), '__main__')
  folders: Sequence[str] = [os.getcwd(), *sys.path]
  finds: list[Callable[[str], Optional[ModuleSpec]]] = [
      lambda part, f=f: f.find_spec(part, folders)  # type: ignore[misc]
      for f in sys.meta_path
      if hasattr(f, 'find_spec')
  ]
  for end, part in enumerate(parts, 1):
    if end > 1:  # A finder of sys.meta_path would import what is above.
      finds = [f.find_spec for f in map(pkgutil.get_importer, folders) if f]
    specs = [spec for find in finds if (spec := find(part))]
    if not specs:
      return '.'.join(parts[:end])
    module = next((spec for spec in specs if spec.loader), None)
    if module is None:  # A package without __init__.py, of several folders.
      folders = [f for s in specs for f in s.submodule_search_locations or ()]
    elif (places := module.submodule_search_locations) is None:
      return '' if end >= len(parts) - 1 else '.'.join(parts[:end + 1])
    elif _sets_path(module.origin):
      return ''
    else:
      folders = places
  return ''


def _sets_path(init: Optional[str]) -> bool:
  if not (init and init.endswith('.py') and os.path.isfile(init)):
    return True
  with open(init, 'rb') as file:
    return b'__path__' in file.read()


def status_of(run: Callable[[], int]) -> int:
  """Runs a command; returns its exit status, also where it is interrupted."""
  try:
    status = run()
    if sys.stdout:  # Some start it without one.
      sys.stdout.flush()
    return status
  except KeyboardInterrupt:
    return INTERRUPTED
  except BrokenPipeError:  # As of `| head`.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0
  except OutputError as e:
    terminal.show(f'error: {e}', sys.stderr)
    return 2


def input_file(text: str) -> str:
  """The whole path of a file that is there: a script may change the folder."""
  if not os.path.isfile(text):
    raise argparse.ArgumentTypeError(f'there is no file {text!r}')
  return os.path.abspath(text)


def output_file(text: str) -> str:
  """The whole path of a file to write; one that is there is replaced."""
  path = os.path.abspath(text)
  is_new = not os.path.exists(path)
  mode = 0 if is_new else os.stat(path).st_mode
  try:
    # Of a pipe the other end may not be there yet.
    if not stat.S_ISFIFO(mode):
      with open(path, 'ab') as file:
        # Which a full disk has no place for.
        is_tried = is_new or stat.S_ISCHR(mode) and not file.isatty()
        file.write(b' ' * is_tried)
  except OSError as e:
    raise argparse.ArgumentTypeError(
        f'{text} cannot be written: {e.strerror}') from e
  finally:
    if is_new and os.path.exists(path):
      os.remove(path)
  return path


def write(path: Union[str, int], text: str) -> None:
  """Writes to what `output_file` gave, or `--json -`: all of it or nothing.

  Raises:
    OutputError: it cannot be written.
  """
  before = None
  if isinstance(path, str) and os.path.isfile(path):
    with contextlib.suppress(PermissionError), open(path, 'rb') as old:
      before = old.read()
  is_new = isinstance(path, str) and not os.path.exists(path)
  try:
    with open(path, 'w', encoding='utf-8', errors='backslashreplace') as file:
      file.write(text)
  except OSError as e:
    if is_new and os.path.exists(path):
      os.remove(str(path))
    elif before is not None:
      with open(path, 'wb') as old:
        old.write(before)
    if isinstance(e, BrokenPipeError):
      raise
    raise OutputError(
        f'{path if isinstance(path, str) else "standard output"} was not '
        f'written: {e.strerror}') from e


def json_file(text: str) -> str:
  return text if text == _STDOUT else output_file(text)


def count(text: str, least: int = 0) -> int:
  """Parses a number that is `least` or more."""
  if not text.isdecimal() or int(text) < least:
    raise argparse.ArgumentTypeError(f'{text!r} is no number, {least} or more')
  return int(text)


def positive(text: str) -> int:
  return count(text, 1)
