"""`python -m torch_xla.shardy.conformance`: is a PJRT plugin right?"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
import contextlib
import os
import signal
import sys
import time
from typing import Optional

from . import expected_failures, session, suite
from .errors import ConformanceError
from .reporting import json_form, junit, page, table
from .result import ConformanceReport, Verdict
from .running.run import Servers
from .subject import parse_options, Subject

_DESCRIPTION = '''
Judges a PJRT plugin by what torch_xla and its users rely on: first what it can
do, measured, then how it behaves. Each case runs in a process of its own, so
that a crash or a hang is a finding.
'''
_LONGEST = 86400  # A day, in seconds.
# The exit status, whatever the verdict is.
_UNWRITTEN = 2
_EPILOG = '''
Exit status: 0 if the plugin conforms; 1 with findings; 2 for wrong usage, if all
that was asked for was skipped, or if a report could not be written; 3 if it
starts no client here and nothing else was found; 130 if interrupted.

Variables that the plugin reads are passed on to it. XLA_USE_SHARDY and
XLA_SHARDING_V2 are set as each case needs them.
'''


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
      prog='python -m torch_xla.shardy.conformance',
      description=_DESCRIPTION,
      epilog=_EPILOG,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  which = parser.add_mutually_exclusive_group()
  which.add_argument(
      '--plugin', metavar='FILE', help='the library of the plugin')
  which.add_argument(
      '--device',
      metavar='NAME',
      help='or a registered one, by the name in PJRT_DEVICE')
  parser.add_argument(
      '--options',
      action='append',
      nargs='+',
      default=[],
      metavar='NAME=VALUE',
      help='of its client, with --plugin')
  parser.add_argument(
      '--topology',
      default='',
      metavar='NAME',
      help='to compile for without a device (TPU: v5e:2x2)')
  parser.add_argument(
      '--only',
      action='append',
      nargs='+',
      default=[],
      metavar='PATTERN',
      help="cases to run, as 'donation.*' or 'transfers.types/BF16'")
  parser.add_argument(
      '--skip',
      action='append',
      nargs='+',
      default=[],
      metavar='PATTERN',
      help='cases to leave out')
  parser.add_argument(
      '--list', action='store_true', help='list the cases, and stop')
  parser.add_argument(
      '--jobs',
      type=int,
      default=1,
      metavar='N',
      help='cases at a time (default: 1, for a device of one process)')
  parser.add_argument(
      '--timeout',
      type=float,
      metavar='SECONDS',
      help='of each part of a case (default: 60, more for long ones)')
  parser.add_argument(
      '--expected-failures',
      metavar='FILE',
      help='of lines "NAME REASON"; what no longer fails is a finding')
  parser.add_argument('--json', metavar='FILE', help='write the report as JSON')
  parser.add_argument('--junit', metavar='FILE', help="as JUnit's XML")
  parser.add_argument('--page', metavar='FILE', help='as a page')
  return parser


def main(arguments: Optional[Sequence[str]] = None) -> int:
  """Runs the command line; its exit status."""
  parser = _parser()
  options = parser.parse_args(arguments)
  try:
    chosen = suite.choose(
        *(sum(each, []) for each in (options.only, options.skip)))
    if options.list:
      _print('\n'.join(_listed(chosen)))
      return 0
    report = _judge(options, chosen)
  except ConformanceError as e:
    print(f'conformance: {e}', file=sys.stderr)
    return 2
  _print(table.text(report))
  unwritten = False
  for path, form in ((options.json, json_form), (options.junit, junit),
                     (options.page, page)):
    try:
      if path:
        with open(
            path, 'w', encoding='utf-8', errors='backslashreplace') as file:
          file.write(form.text(report))
    except OSError as e:
      print(f'conformance: {path} was not written: {e}', file=sys.stderr)
      unwritten = True
  return _UNWRITTEN if unwritten else report.verdict.value


def _print(text: str) -> None:
  """Prints it for whoever reads: a closed terminal or pipe changes nothing."""
  if sys.stdout is None:
    return
  # A plugin's words may not be in the terminal's character set.
  sys.stdout.reconfigure(errors='backslashreplace')
  try:
    print(text, flush=True)
  except OSError:
    # Python would try again at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _listed(chosen: Sequence[suite.Chosen]) -> Iterator[str]:
  for case, parts in chosen:
    count = f' ({len(parts)} parts)' if len(parts) > 1 else ''
    yield f'{case.name}{count}\n    else {case.means}'
    if len(parts) > 1:
      yield from table.wrapped(f'parts: {", ".join(parts)}', indent='    ')


def _judge(options: argparse.Namespace,
           chosen: Sequence[suite.Chosen]) -> ConformanceReport:
  """Runs the chosen cases on the plugin that the options name.

  Raises:
    ConformanceError: wrong usage.
  """
  if not options.plugin and not options.device:
    raise ConformanceError('give --plugin FILE or --device NAME')
  if options.jobs < 1:
    raise ConformanceError(f'--jobs {options.jobs}: at least one at a time')
  if options.timeout is not None and not 0 < options.timeout <= _LONGEST:
    raise ConformanceError(f'--timeout {options.timeout:g}: it must be '
                           f'positive, and at most {_LONGEST}')
  given = sum(options.options, [])
  if options.device and given:
    raise ConformanceError('--options go with --plugin; a registered plugin '
                           'tells its own')
  paths = [p for p in (options.json, options.junit, options.page) if p]
  if len(set(map(os.path.realpath, paths))) < len(paths):
    raise ConformanceError('--json, --junit and --page go to different files')
  for path in paths:
    folder = os.path.dirname(path) or '.'
    if not os.access(folder, os.W_OK) or os.path.isdir(path):
      raise ConformanceError(f'{path} cannot be written')
  lines = (
      expected_failures.read(options.expected_failures)
      if options.expected_failures else ())
  for line in lines:
    suite.check_expected(line.pattern)
  parsed = parse_options(given)
  if options.plugin:
    subject = Subject.of_library(options.plugin, parsed, options.topology)
  else:
    subject = Subject(options.device.upper(), topology=options.topology)
  start = time.monotonic()

  def say(line: str) -> None:
    if sys.stderr is None:
      return
    with contextlib.suppress(OSError):  # Nobody reads any more.
      print(
          f'[{time.monotonic() - start:6.1f} s] {line}',
          file=sys.stderr,
          flush=True)

  servers = Servers()
  try:
    report = session.judge(subject, chosen, servers, options.jobs,
                           options.timeout, say)
  finally:
    servers.close()
  return session.with_expected(report, lines, options.expected_failures or '')


def _interrupt(number: int, frame: object) -> None:
  raise KeyboardInterrupt


if __name__ == '__main__':
  # As CI ends what takes too long: what was found is told.
  signal.signal(signal.SIGTERM, _interrupt)
  try:
    sys.exit(main())
  except KeyboardInterrupt:
    sys.exit(Verdict.INTERRUPTED.value)
