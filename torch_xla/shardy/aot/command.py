"""Does `torch-xla-shardy aot`: a script, for a topology that is not there."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
import dataclasses
import os
import sys
from typing import Optional

from torch_xla_shardy import terminal
from torch_xla_shardy.parser import INTERRUPTED as _STATUS_INTERRUPTED
from torch_xla_shardy.parser import Parser, write

from . import launcher, topologies
from .errors import AotError
from .reporting import (comparison, json_form, largest, page, requirements,
                        table, wording)
from .report import INTERRUPTED, AotReport
from .settings import Settings
from ..gate import junit

_STATUS_FAILED = 3


def run(parser: Parser, options: argparse.Namespace) -> int:
  """Runs the command; returns its exit status."""
  if options.topologies:
    print(topologies.known())
    return 0
  if options.require == ['help']:
    print(requirements.known())
    return 0
  parser.need_script(options)
  try:
    names = [topologies.parse(text) for text in options.topology]
    required = [requirements.parse(text) for text in options.require]
    others = [(f'{report.topology.name} of {os.path.basename(path)}', report)
              for path in options.compare
              for report in json_form.read(path)]
    compiler = launcher.compiler()
    wanted = (
        largest.batch(options.arguments) if options.largest_batch else
        largest.parse(options.largest) if options.largest else None)
  except (ValueError, AotError) as e:
    parser.error(str(e))
  if not names:
    parser.error(f'--topology is missing. {topologies.known()}')
  for name in names:
    if not 0 <= options.host < name.hosts:
      parser.error(f'--host {options.host}: {name.text} has {name.hosts} '
                   f'host{"s" if name.hosts > 1 else ""}, counted from 0')
  if options.largest and options.largest_batch:
    parser.error('--largest-batch is a --largest: give one of them')
  reports = []
  for name in names:
    try:
      reports.append(
          _run(
              Settings(options.script, options.is_module,
                       tuple(options.arguments), name.text, compiler, '',
                       options.host, options.one_process, options.steps,
                       options.strict, options.quiet), wanted))
    except AotError as e:
      print(f'aot: {e}', file=sys.stderr)
      return 3 if isinstance(e, launcher.FailedEarlyError) else 2
    if reports[-1].ended == INTERRUPTED:
      break
  _write(options, reports, others)
  if reports[-1].ended == INTERRUPTED:
    return _STATUS_INTERRUPTED
  status, checks = _judged(reports, required, options.quiet)
  if options.junit:
    write(options.junit, junit.of_checks('aot', checks))
  return status


def _run(settings: Settings, wanted: Optional[largest.Range]) -> AotReport:
  """One report, of the largest that fits where that is asked for."""
  if wanted is None:
    return launcher.run(settings)
  return largest.search(
      wanted, lambda value: launcher.run(
          dataclasses.replace(
              settings, arguments=wanted.put(settings.arguments, value))),
      lambda text: print(f'aot {settings.topology}: {text}', file=sys.stderr),
      settings.quiet)


def _write(options: argparse.Namespace, reports: Sequence[AotReport],
           others: Sequence[tuple[str, AotReport]]) -> None:
  """Prints the reports, and writes the files that were asked for."""
  sys.stdout.flush()
  if not options.quiet:
    for report in reports:
      terminal.show(table.text(report))
  elif options.largest or options.largest_batch:
    for report in reports:
      print(f'{report.topology.name}: {report.findings[0]}')
  together = [*others, *((r.topology.name, r) for r in reports)]
  if len(together) > 1 and not options.quiet:
    print(comparison.text(comparison.compare(together)))
  for path, text in ((options.json, lambda: json_form.to_json(reports)),
                     (options.html, lambda: page.html(together))):
    if path:
      write(path, text())


def _judged(reports: Sequence[AotReport],
            required: Sequence[requirements.Requirement],
            is_quiet: bool) -> tuple[int, list[junit.Check]]:
  """The exit status, and all that was judged; prints what no report says."""

  def check(name: str, text_of: Callable[[AotReport],
                                         Optional[str]]) -> junit.Check:
    findings = ((r.topology.name, text_of(r)) for r in reports)
    return junit.Check(name,
                       tuple(f'{of}: {text}' for of, text in findings if text))

  checks = [check(r.text, r.check) for r in required]
  fit = check('fit', lambda r: wording.verdict(r) if r.fits is False else None)
  script = check(
      'script', lambda r: f'{r.script[0]} failed ({r.ended})'
      if r.failed else None)
  lines = [f'aot: {text}' for c in checks for text in c.findings]
  if is_quiet:
    lines += [r.traceback for r in reports if r.traceback]
    lines += [f'aot: {text}' for c in (fit, script) for text in c.findings]
  for line in lines:
    print(line, file=sys.stderr)
  checks += [fit, script]
  # A script that ended because it does not fit did not fail itself.
  if any(report.failed and report.fits is not False for report in reports):
    return _STATUS_FAILED, checks
  return int(any(check.findings for check in checks)), checks
