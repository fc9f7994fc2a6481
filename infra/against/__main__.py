"""Runs the behaviour tests of the series against any torch_xla."""

from __future__ import annotations

import argparse
import functools
import json
from pathlib import Path
import sys
import tempfile

ROOT = Path(__file__).resolve().parents[2]
if __name__ == '__main__':
  sys.path[0] = str(ROOT)

from infra.against import target as targets, tools, wheel_only
from infra.against.judge import Judge
from infra.against.report import Report, Standing
from infra.against.suite import lay, SUITES
from infra.errors import BuildError, Say
from infra.patchset import files
from infra.patchset.manifest import load_manifest

# An exit status that no verdict has.
_NO_TARGET = 2


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
  """Runs the command line; returns the exit status of the verdict.

  0 if all three features are there and hold, 1 if not, 2 if nothing could be
  judged.
  """
  options, to_pytest = _parser().parse_known_args(arguments)
  say = functools.partial(print, flush=True)
  try:
    report = _judge(root, options, to_pytest, say)
    for line in report.lines():
      say(line)
    if options.json:
      options.json.write_text(
          json.dumps(report.data(), indent=2) + '\n', encoding='utf-8')
  except (BuildError, OSError) as error:
    print(f'error: {error}', file=sys.stderr)
    return _NO_TARGET
  return report.exit_status


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
      prog='bash infra/test.sh',
      description=__doc__,
      allow_abbrev=False,
      epilog='Further arguments go to pytest.')
  which = parser.add_mutually_exclusive_group(required=True)
  which.add_argument(
      '--against',
      metavar='PYTHON',
      help='an interpreter that has torch and some torch_xla installed')
  which.add_argument(
      '--wheel',
      type=Path,
      metavar='FILE',
      help="a wheel of torch_xla, to be run with .venv's torch")
  parser.add_argument(
      '--json', type=Path, metavar='FILE', help='also writes the report there')
  return parser


def _judge(root: Path, options: argparse.Namespace, to_pytest: list[str],
           say: Say) -> Report:
  work = root / 'build' / 'against'
  work.mkdir(parents=True, exist_ok=True)
  manifest = load_manifest(root)
  with tempfile.TemporaryDirectory(dir=work, prefix='run-') as tree:
    if options.wheel:
      target = targets.of_wheel(options.wheel, root)
    else:
      target = targets.of_python(options.against, Path(tree))
    lay(root, manifest, Path(tree))
    judge = Judge(target, Path(tree), root)
    say(f'==> looking at the torch_xla of {target.folder or target.python}')
    facts, features = judge.probe()
    folders = tools.provide(target, root, say)
    say(f'==> running the tests against {facts["file"]}')
    outcomes = judge.run(features, folders, to_pytest)
  standings = [
      Standing(suite, features[suite.feature], {
          n: o for n, o in outcomes.items() if n.startswith(suite.tests)
      }) for suite in SUITES
  ]
  return Report(
      facts, tuple(standings), {
          series.name:
              wheel_only.count(root, files.tests_of(
                  root, manifest, series.name)) for series in manifest.series
      })


if __name__ == '__main__':
  sys.exit(main())
