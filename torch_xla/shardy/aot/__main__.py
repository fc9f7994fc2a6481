"""`python -m torch_xla.shardy.aot`: a script, for a topology that is not there."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
import dataclasses
import os
import sys
from typing import Optional

from . import launcher, topologies
from .errors import AotError
from .reporting import (comparison, golden, json_form, largest, page,
                        quantities, requirements, table, wording)
from .report import INTERRUPTED, AotReport
from .settings import Settings
from ..gate import ci
from ..gate.golden import Golden, grouped, read, update
from ..gate.requirements import parse_tolerance, Tolerance

_DESCRIPTION = '''
Runs a script unchanged for TPUs that are not there. The TPU's own compiler
compiles each program for the topology; nothing is computed, and values that are
read are zeros. Then reports whether the programs fit, how they are partitioned,
what they move, and how long the compiler thinks that they take.
'''
_EPILOG = '''
The environment is that of a real run: XLA_USE_SHARDY=1, LIBTPU_INIT_ARGS and
all else count, and TPU_LIBRARY_PATH names another libtpu.

Exit status: 0 if all programs fit and all that is required holds; 1 if not; 2
for wrong usage or a compiler that is missing; 3 for a script that failed; 130 if
it was interrupted. --require takes 'fits', too.
'''

_STATUS_FAILED = 3
_STATUS_INTERRUPTED = 130  # 128 + SIGINT, as shells have it.


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
      prog='python -m torch_xla.shardy.aot',
      usage='%(prog)s --topology NAME [options] (SCRIPT | -m MODULE) '
      '[ARGUMENTS...]',
      description=_DESCRIPTION,
      epilog=_EPILOG,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument(
      'script',
      nargs=argparse.REMAINDER,
      metavar='SCRIPT [ARGUMENTS...]',
      help='a Python file and its own arguments')
  parser.add_argument(
      '-m',
      nargs=argparse.REMAINDER,
      dest='module',
      metavar='MODULE',
      help='a module in place of a file, and its own arguments')
  parser.add_argument(
      '--topology',
      action='append',
      default=[],
      metavar='NAME',
      help="such as v5e:16x16, v5p-128 or '2*v6e:8x8'; given several times, "
      'the script is run for each and the reports are compared')
  parser.add_argument(
      '--topologies', action='store_true', help='list what is known, and stop')
  parser.add_argument(
      '--steps',
      type=int,
      default=0,
      metavar='N',
      help='stop the script after N steps: for loops that wait for a value')
  parser.add_argument(
      '--strict',
      action='store_true',
      help='reading a value is an error instead of zeros')
  parser.add_argument(
      '--host',
      type=int,
      default=0,
      metavar='N',
      help='play the process of host N (default: 0)')
  parser.add_argument(
      '--one-process',
      action='store_true',
      help='tell the script that it is the only process, for those that wait '
      'for others, such as checkpoint managers; the default is the truth, a '
      'process per host')
  parser.add_argument(
      '--largest',
      metavar='NAME=LOW..HIGH',
      help="find the largest that fits of the values of the script's argument "
      '--NAME, the multiples of LOW; each try runs the script')
  parser.add_argument(
      '--largest-batch',
      action='store_true',
      help='the same for the batch size that the script is given')
  parser.add_argument('--json', metavar='FILE', help='write the report as JSON')
  parser.add_argument(
      '--html', metavar='FILE', help='write the report as one HTML page')
  parser.add_argument(
      '--compare',
      action='append',
      default=[],
      metavar='FILE',
      help='show the reports of an earlier --json beside these')
  ci.add_options(parser)
  parser.add_argument(
      '--tolerance',
      action='append',
      default=[],
      metavar='QUANTITY=VALUE',
      help="what may differ from --golden: 'cycles=5%%', 'programs=1'")
  return parser


def main(arguments: Optional[Sequence[str]] = None) -> int:
  """Runs the command; returns its exit status."""
  parser = _parser()
  options = parser.parse_args(arguments)
  if options.topologies:
    print(topologies.known())
    return 0
  if options.require == ['help']:
    print(requirements.known())
    return 0
  script, is_module, theirs = _script(parser, options)
  try:
    names = [topologies.parse(text) for text in options.topology]
    required = [requirements.parse(text) for text in options.require]
    tolerances = [
        parse_tolerance(text, quantities.named) for text in options.tolerance
    ]
    others = [(f'{report.topology.name} of {os.path.basename(path)}', report)
              for path in options.compare
              for report in json_form.read(path)]
    expected = (
        read(options.golden, golden.TOOL).only(options.golden_sections)
        if options.golden and not options.update_golden else None)
    compiler = launcher.compiler()
    wanted = (
        largest.batch(theirs) if options.largest_batch else
        largest.parse(options.largest) if options.largest else None)
  except (ValueError, AotError) as e:
    parser.error(str(e))
  if not names:
    parser.error(f'--topology is missing. {topologies.known()}')
  _check(parser, options, names)
  reports = []
  for name in names:
    try:
      reports.append(
          _run(
              Settings(script, is_module, tuple(theirs), name.text, compiler,
                       '', options.host, options.one_process, options.steps,
                       options.strict), wanted))
    except AotError as e:
      print(f'aot: {e}', file=sys.stderr)
      return 2
    if reports[-1].ended == INTERRUPTED:
      break
  _write(options, reports, others)
  if reports[-1].ended == INTERRUPTED:
    return _STATUS_INTERRUPTED
  status, checks = _judged(reports, required, expected, tolerances)
  if options.update_golden and status != _STATUS_FAILED:
    said, found = update(options.golden, golden.of_reports(reports),
                         options.golden_sections)
    print('\n  '.join([said, *map(str, grouped(found, golden.title))]))
  ci.tell('aot', checks, options.junit, os.environ)
  return status


def _run(settings: Settings, wanted: Optional[largest.Range]) -> AotReport:
  """One report, of the largest that fits where that is asked for."""
  if wanted is None:
    return launcher.run(settings)
  return largest.search(
      wanted, lambda value: launcher.run(
          dataclasses.replace(
              settings, arguments=wanted.put(settings.arguments, value))),
      lambda text: print(f'aot {settings.topology}: {text}', file=sys.stderr))


def _script(parser: argparse.ArgumentParser,
            options: argparse.Namespace) -> tuple[str, bool, list[str]]:
  """What to run, whether it is a module, and its arguments."""
  if options.module is not None:
    if not options.module:
      parser.error('-m needs a module')
    return options.module[0], True, options.module[1:]
  command = options.script
  if command[:1] == ['--']:
    command = command[1:]
  if not command:
    parser.error('there is no script to run')
  if not os.path.isfile(command[0]):
    parser.error(f'there is no script {command[0]!r}')
  return command[0], False, command[1:]


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace,
           names: Sequence[topologies.TopologyName]) -> None:
  if options.steps < 0:
    parser.error('--steps is a number of steps, 1 or more')
  for name in names:
    if not 0 <= options.host < name.hosts:
      parser.error(f'--host {options.host}: {name.text} has {name.hosts} '
                   f'host{"s" if name.hosts > 1 else ""}, counted from 0')
  if options.largest and options.largest_batch:
    parser.error('--largest-batch is a --largest: give one of them')
  wrong = ci.misused(vars(options))
  if wrong:
    parser.error(wrong)
  if options.tolerance and not options.golden:
    parser.error('--tolerance says what may differ from --golden, and there is '
                 'none')
  for key in ('json', 'html', 'junit', 'golden'):
    path = getattr(options, key)
    if path and not os.path.isdir(os.path.dirname(os.path.abspath(path))):
      parser.error(f'--{key}: no directory for {path}')


def _write(options: argparse.Namespace, reports: Sequence[AotReport],
           others: Sequence[tuple[str, AotReport]]) -> None:
  """Prints the reports, and writes the files that were asked for."""
  sys.stdout.flush()
  for report in reports:
    print(table.text(report))
  together = [*others, *((r.topology.name, r) for r in reports)]
  if len(together) > 1:
    print(comparison.text(comparison.compare(together)))
  for path, text in ((options.json, lambda: json_form.to_json(reports)),
                     (options.html, lambda: page.html(together))):
    if path:
      with open(path, 'w', encoding='utf-8') as f:
        f.write(text())


def _judged(reports: Sequence[AotReport],
            required: Sequence[requirements.Requirement],
            expected: Optional[Golden],
            tolerances: Sequence[Tolerance]) -> tuple[int, list[ci.Check]]:
  """The exit status, and all that was judged; says what does not hold."""

  def check(name: str, say: Callable[[AotReport], Optional[str]]) -> ci.Check:
    found = ((r.topology.name, say(r)) for r in reports)
    return ci.Check(name, tuple(f'{of}: {said}' for of, said in found if said))

  checks = [check(one.text, one.check) for one in required]
  if expected:
    found = golden.changes(expected, golden.of_reports(reports), tolerances)
    checks.append(
        ci.Check('golden file', tuple(map(str, grouped(found, golden.title)))))
  for line in (text for one in checks for text in one.findings):
    print(f'aot: {line}', file=sys.stderr)
  checks += [
      check('fit', lambda r: wording.verdict(r) if r.fits is False else None),
      check('script', lambda r: r.ended if r.failed else None),
  ]
  # A script that ended because it does not fit did not fail itself.
  if any(report.failed and report.fits is not False for report in reports):
    return _STATUS_FAILED, checks
  return int(any(check.findings for check in checks)), checks


if __name__ == '__main__':
  try:
    sys.exit(main())
  except KeyboardInterrupt:
    sys.exit(_STATUS_INTERRUPTED)
