"""Does `torch-xla-behaviour`: is a torch_xla as it should be?"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
import re
import sys
import tempfile
import time

from . import forms, judge
from .report import Report
from .run import Asked, Outcome, Run
from .shared import expected_failures, parser, terminal
from .shared.errors import ConformanceError
from .shared.result import matches

_DESCRIPTION = '''
Judges the torch_xla that this Python has installed: our wheel, a fork, or a build
of your own. It looks for four features, and runs tests of each on eight virtual
CPU devices; where a feature is absent its tests are not run, and fail as lacking.

A failure says that yours lacks what the test uses, differs (a placement, a text, or
how often something is compiled, with right numbers), or is wrong (numbers, lost
data, an error or a crash).
'''
_EPILOG = '''
PATTERN is a name as reports have it, in which * and ? stand for any text and for
any character, also a blank. `pytest --pyargs torch_xla_behaviour` runs the same
tests, with all that pytest offers.
'''
_ENDS = {
    0: 'if all that was run holds',
    2: 'for wrong usage, or if nothing could be judged',
    3: '',
}
_SHARD = re.compile(r'(\d+)/(\d+)')
_FORMS = (('json', forms.as_json), ('junit', forms.as_junit), ('html',
                                                               forms.as_page))


def main(arguments: Sequence[str] | None = None) -> int:
  """Runs a command line; returns its exit status."""
  return parser.status_of(lambda: _run(sys.argv[1:]
                                       if arguments is None else arguments))


def _run(arguments: Sequence[str]) -> int:
  options = make_parser().parse(arguments)
  try:
    report = _judge(options)
  except (judge.BehaviourError, ConformanceError) as error:
    terminal.show(f'error: {error}', sys.stderr)
    return 2
  if not options.quiet or report.exit_status:
    terminal.show(report.text())
  for name, form in _FORMS:
    path = getattr(options, name)
    if path is not None:
      parser.write(path, form(report))
  return report.exit_status


def make_parser() -> parser.Parser:
  """Makes the parser of the command."""
  own = parser.Parser(
      '', _DESCRIPTION, _EPILOG, _ENDS, program='torch-xla-behaviour')
  own.repeated_option('--only', 'PATTERN', 'run these tests')
  own.repeated_option('--skip', 'PATTERN', 'leave these out')
  own.option(
      '--shard', 'I/N',
      'run the I-th of N parts of the tests; which part a test '
      'is in depends on its name alone', _shard, (1, 1))
  own.option('--expected-failures', 'FILE',
             'of lines "PATTERN REASON"; what no longer fails is a finding')
  own.add_reports('html', 'junit')
  return own


def _shard(text: str) -> tuple[int, int]:
  match = _SHARD.fullmatch(text)
  if not match or not 1 <= int(match[1]) <= int(match[2]):
    raise argparse.ArgumentTypeError(
        f'{text!r} is no shard: give 1/4 for the first of four')
  return int(match[1]), int(match[2])


def _judge(options: argparse.Namespace) -> Report:
  """Runs the tests that are asked for.

  Raises:
    BehaviourError: there is no torch_xla to judge, or pytest fails.
    ConformanceError: the file of expected failures is none.
  """
  start = time.monotonic()
  path = options.expected_failures
  lines = expected_failures.read(path) if path else ()
  with tempfile.TemporaryDirectory(prefix='behaviour-') as folder:
    run = Run(Path(folder))
    probed = judge.probe(run.folder)
    run.ask(
        Asked(
            judge.missing(probed.features), options.only, options.skip,
            options.shard))
    judge.run_tests(run)
    names, outcomes = run.names(), run.outcomes()
  known = {*names, *outcomes}
  for pattern in (*options.only, *options.skip, *(x.pattern for x in lines)):
    if not _named(pattern, known):
      raise judge.BehaviourError(f'{pattern!r} matches no test')
  results = expected_failures.judge((o.result for o in outcomes.values()),
                                    lines, lambda p: _named(p, known), path or
                                    '')
  return Report(probed, results, _kinds(outcomes), time.monotonic() - start)


def _kinds(outcomes: Mapping[str, Outcome]) -> dict[str, str]:
  return {name: o.kind for name, o in outcomes.items() if o.kind}


def _named(pattern: str, names: set[str]) -> set[str]:
  return {name for name in names if matches(pattern, name, '')}
