"""The parser that the commands share, and the options of several."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
import os
import sys
import textwrap
from typing import Any, NoReturn, Optional

from . import terminal

PROGRAM = 'torch-xla-shardy'
INTERRUPTED = 130  # 128 + SIGINT, as shells have it.
# Sections of a golden file.
SECTIONS = ('placements', 'programs', 'collectives', 'memory', 'counts')

_STDOUT = '-'
_ENDS = {
    0: 'if all is well',
    1: 'with a finding',
    2: 'for wrong usage',
    3: 'if the script failed',
    INTERRUPTED: 'if interrupted',
}


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
    self.print_usage(sys.stderr)
    terminal.show(f'error: {message}', sys.stderr)
    sys.exit(2)

  def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
    """Parses; with `--json -`, standard output is for that alone from now on.
    """
    options = self.parse_args(arguments)
    if getattr(options, 'json', None) == _STDOUT:
      if not sys.stdout:
        self.error('--json -: standard output is closed')
      sys.stdout.flush()
      # A number is what `open` takes as well; a script's process inherits it.
      options.json = os.dup(1)
      os.set_inheritable(options.json, True)
      os.dup2(2, 1)
    return options

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
    self.add_argument(
        'script',
        nargs=None if required else '?',
        type=script_file,
        metavar='SCRIPT',
        help='a Python file')
    self.add_argument(
        'arguments',
        nargs=argparse.REMAINDER,
        metavar='ARGUMENTS...',
        help="the script's own")

  def add_gate(self) -> None:
    """Adds the options that a report is checked against."""
    self.option(
        '--golden', 'FILE',
        'fail if anything differs from this file, which --update-golden '
        'wrote')
    self.option(
        '--golden-sections', 'NAMES',
        f'what of it counts, of {",".join(SECTIONS)} (default: all but '
        'counts)', _sections)
    self.flag('--update-golden',
              'write that file instead, and say what changed')
    self.repeated_option(
        '--require', 'REQUIREMENT',
        "fail unless it holds: 'all-gather bytes<=1GiB', 'programs<=3'; "
        '--require help lists the quantities')

  def check_gate(self, options: argparse.Namespace) -> None:
    """Ends the process where these options make no sense together."""
    if (options.golden_sections or
        options.update_golden) and not options.golden:
      self.error('--golden-sections and --update-golden are of --golden FILE')
    if options.update_golden:
      try:
        options.golden = output_file(options.golden)
      except argparse.ArgumentTypeError as e:
        self.error(f'--golden: {e}')

  def actions(self) -> Iterator[argparse.Action]:
    """The parser's options and arguments, in order."""
    return iter(self._actions)


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


def script_file(text: str) -> str:
  if not os.path.isfile(text):
    raise argparse.ArgumentTypeError(f'there is no script {text!r}')
  return text


def input_file(text: str) -> str:
  """The whole path of a file that is there: a script may change the folder."""
  if not os.path.isfile(text):
    raise argparse.ArgumentTypeError(f'there is no file {text!r}')
  return os.path.abspath(text)


def output_file(text: str) -> str:
  """The whole path of a file to write; one that is there is replaced."""
  path = os.path.abspath(text)
  folder = os.path.dirname(path)
  if not os.path.isdir(folder):
    raise argparse.ArgumentTypeError(f'no directory for {text}')
  if os.path.isdir(path) or not os.access(
      path if os.path.exists(path) else folder, os.W_OK):
    raise argparse.ArgumentTypeError(f'{text} cannot be written')
  return path


def json_file(text: str) -> str:
  return text if text == _STDOUT else output_file(text)


def count(text: str) -> int:
  """Parses a number that is 0 or more."""
  if not text.isdecimal():
    raise argparse.ArgumentTypeError(f'{text!r} is no number, 0 or more')
  return int(text)


def positive(text: str) -> int:
  if not text.isdecimal() or not int(text):
    raise argparse.ArgumentTypeError(f'{text!r} is no number, 1 or more')
  return int(text)


def _sections(text: str) -> list[str]:
  names = [name.strip() for name in text.split(',')]
  for name in names:
    if name not in SECTIONS:
      raise argparse.ArgumentTypeError(f'there is no section {name!r}, but '
                                       f'{", ".join(SECTIONS)}')
  return names
