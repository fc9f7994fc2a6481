"""Runs the probe and the tests, each in processes of their own."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent import futures
from dataclasses import dataclass
import json
import os
from pathlib import Path
import subprocess
import sys
from typing import Any

from .run import Run
from .suites import Suite, SUITES, TESTS

# What decides how the runtime starts is each test's to say.
_LEFT_OUT = ('PYTEST_', 'XLA_', 'PJRT_', 'CONVERT_SHLO_TO_SHARDY', 'CPU_NUM_',
             'TPU_', 'PT_XLA_', 'NPROC')
_SECONDS = 300
# All held; some did not; none was left after the user's own choice.
_PYTESTS_STATUSES = (0, 1, 5)
_QUIET = ('-q', '-p', 'no:cacheprovider', '-p', 'no:unraisableexception',
          '--continue-on-collection-errors', '--tb=no', '-rN')


class BehaviourError(Exception):
  """Raised where there is nothing to judge; the text says what is missing."""


@dataclass(frozen=True)
class Feature:
  """A feature that a torch_xla may have.

  Attributes:
    how: by what that was found.
    is_on: whether it can be switched on, if it is there.
  """
  is_present: bool
  how: str
  is_on: bool = True

  @property
  def usable(self) -> bool:
    return self.is_present and self.is_on


@dataclass(frozen=True)
class ProbeResult:
  """The result of the probe.

  Attributes:
    facts: which torch_xla it is.
    features: by the name of their series.
  """
  facts: Mapping[str, str]
  features: Mapping[str, Feature]


def probe(place: Path) -> ProbeResult:
  """Probes this Python's torch_xla and its features.

  Args:
    place: a folder for the processes to be in.

  Raises:
    BehaviourError: it has none, or one that cannot be imported or used.
  """
  facts = _ask(place)
  if 'missing' in facts:
    raise BehaviourError(f'{sys.executable} has no {facts["missing"]}: install '
                         'this suite where the torch_xla is that is to be '
                         'judged')
  for key, message in (('import', 'cannot be imported'), ('error',
                                                          'does not work')):
    if key in facts:
      raise BehaviourError(f'{sys.executable} has a torch_xla that {message}:\n'
                           f'{_last_lines(facts[key])}')
  features = [Feature(*facts.pop(s.feature)) for s in SUITES]
  with futures.ThreadPoolExecutor() as pool:
    features = pool.map(lambda s, f: _switched_on(s, f, place), SUITES,
                        features)
  return ProbeResult(facts, {s.series: f for s, f in zip(SUITES, features)})


def missing(features: Mapping[str, Feature]) -> dict[str, tuple[str, str]]:
  """The kind of failure of each series whose tests cannot be run, and why."""
  return {
      s.series: (
          'wrong' if features[s.series].is_present else 'lacks',
          features[s.series].how
      ) for s in SUITES if not s.always and not features[s.series].usable
  }


def run_tests(run: Run) -> None:
  """Runs what is asked for there; pytest shows progress on stderr.

  Raises:
    BehaviourError: pytest did not come to its end.
  """
  settings = run.folder / 'pytest.ini'
  settings.write_text('[pytest]\npython_files = *_test.py\n', encoding='utf-8')
  status = subprocess.run([
      sys.executable, '-m', 'pytest', *_QUIET, '-c',
      str(settings), f'--rootdir={TESTS.parent}',
      str(TESTS)
  ],
                          cwd=run.folder,
                          env=_environment() | run.variables,
                          stdin=subprocess.DEVNULL,
                          stdout=sys.stderr,
                          check=False).returncode
  if status not in _PYTESTS_STATUSES:
    raise BehaviourError(f'pytest ended with status {status}: see above')


def _environment() -> dict[str, str]:
  variables = {
      k: v for k, v in os.environ.items() if not k.startswith(_LEFT_OUT)
  }
  # XLA's own talk would drown the rest.
  return {'TF_CPP_MIN_LOG_LEVEL': '2'} | variables | {'PYTHONUNBUFFERED': '1'}


def _ask(place: Path, *arguments: str) -> dict[str, Any]:
  command = [sys.executable, '-m', f'{__package__}.probe', *arguments]
  try:
    process = subprocess.run(
        command,
        cwd=place,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors='replace',
        timeout=_SECONDS,
        check=False)
  except subprocess.TimeoutExpired:
    return {'error': f'no end within {_SECONDS} s'}
  try:
    return json.loads(process.stdout)
  except ValueError:
    ended = (f'was ended by signal {-process.returncode}' if process.returncode
             < 0 else f'ended with status {process.returncode}')
    return {'error': f'{process.stderr}\nthe process {ended}'}


def _switched_on(suite: Suite, feature: Feature, place: Path) -> Feature:
  """The feature, with what came of switching it on."""
  if suite.always or not feature.is_present:
    return feature
  answer = _ask(place, suite.environment)
  if 'error' in answer:
    return Feature(
        True, f'{feature.how}; it cannot be switched on: '
        f'{_last_lines(answer["error"], 1)}', False)
  version = 'V2' if '<=' in answer['text'] else 'V1'
  return Feature(True, f'{feature.how}; shardings are read back as {version}')


def _last_lines(text: str, count: int = 6) -> str:
  return '\n'.join(text.strip().splitlines()[-count:])
