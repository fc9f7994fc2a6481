"""Does `torch-xla-shardy conformance`: is a PJRT plugin right?"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
import contextlib
import signal
import sys
import time

from . import expected_failures, session, suite
from .case import ConformanceError, Needs
from .reporting import json_form, junit, page, table
from .result import ConformanceReport, Status
from .running.run import Servers
from .shared import terminal
from .shared.parser import OutputError, Parser, write
from .subject import parse_options, Subject
from .torch_modules import missing

_LONGEST = 86400  # A day, in seconds.
# The exit status, whatever the verdict is.
_UNWRITTEN = 2


def run(parser: Parser, options: argparse.Namespace) -> int:
  """Runs the command; returns its exit status."""
  # As CI ends what takes too long: what was found is told.
  signal.signal(signal.SIGTERM, signal.default_int_handler)
  try:
    chosen = suite.choose(
        sum(options.only, []), sum(options.skip, []), options.tier,
        options.shard)
    if options.list:
      terminal.show('\n'.join(_listed(chosen)))
      return 0
    report = _judge(options, chosen)
  except ConformanceError as e:
    print(f'conformance: {e}', file=sys.stderr)
    return 2
  if not options.quiet or report.verdict.value:
    terminal.show(table.text(report))
  if options.topology and not any(
      r.case.startswith('ahead.') and r.status is not Status.SKIPPED
      for r in report.results):
    print(
        f'conformance: no case used --topology {options.topology}',
        file=sys.stderr)
  unwritten = False
  for path, form in ((options.json, json_form), (options.junit, junit),
                     (options.html, page)):
    try:
      if path:
        write(path, form.text(report))
    except OutputError as e:
      print(f'conformance: {e}', file=sys.stderr)
      unwritten = True
  return _UNWRITTEN if unwritten else report.verdict.value


def _listed(chosen: Sequence[suite.Chosen]) -> Iterator[str]:
  for case, parts in chosen:
    count = f' ({len(parts)} parts)' if len(parts) > 1 else ''
    yield f'{case.name}{count}\n    else {case.means}'
    if len(parts) > 1:
      yield from table.wrapped(f'parts: {", ".join(parts)}', indent='    ')


def _judge(options: argparse.Namespace,
           chosen: Sequence[suite.Chosen]) -> ConformanceReport:
  """Runs the chosen cases on the plugin that the options name."""
  if not options.plugin and not options.device:
    raise ConformanceError('give --plugin FILE or --device NAME')
  if options.device and (lacking := missing(Needs.TORCH_XLA)):
    raise ConformanceError(f'--device {options.device}: {lacking}; or give '
                           '--plugin FILE, which needs nothing else')
  if options.jobs < 1:
    raise ConformanceError(f'--jobs {options.jobs}: at least one at a time')
  if options.timeout is not None and not 0 < options.timeout <= _LONGEST:
    raise ConformanceError(f'--timeout {options.timeout:g}: it must be '
                           f'positive, and at most {_LONGEST}')
  client_options = sum(options.options, [])
  if options.device and client_options:
    raise ConformanceError('--options go with --plugin; a registered plugin '
                           'tells its own')
  paths = [p for p in (options.json, options.junit, options.html) if p]
  if len(set(map(str, paths))) < len(paths):
    raise ConformanceError('--json, --junit and --html go to different files')
  lines = (
      expected_failures.read(options.expected_failures)
      if options.expected_failures else ())
  for line in lines:
    suite.names(line.pattern)
  parsed = parse_options(client_options)
  if options.plugin:
    subject = Subject.from_library(options.plugin, parsed, options.topology)
  else:
    subject = Subject(options.device.upper(), topology=options.topology)
  start = time.monotonic()

  def say(line: str) -> None:
    if sys.stderr is None or options.quiet:
      return
    with contextlib.suppress(OSError):  # Nobody reads any more.
      print(
          f'[{time.monotonic() - start:6.1f} s] {line}',
          file=sys.stderr,
          flush=True)

  servers = Servers()
  try:
    return session.judge(subject, chosen, servers, options.jobs,
                         options.timeout, say, lines,
                         options.expected_failures or '')
  finally:
    servers.close()
