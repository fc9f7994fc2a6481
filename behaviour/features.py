"""Probes a torch_xla for features, in processes of their own."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent import futures
from dataclasses import dataclass
import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from .suites import Suite, SUITES

# What decides how the runtime starts is each test's to say.
_LEFT_OUT = ('PYTEST_', 'XLA_', 'PJRT_', 'CONVERT_SHLO_TO_SHARDY', 'CPU_NUM_',
             'TPU_', 'PT_XLA_', 'NPROC')
_SECONDS = 300


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


@dataclass(frozen=True)
class ProbeResult:
  """The result of the probe.

  Attributes:
    facts: which torch_xla it is.
    features: by the name of their series.
  """
  facts: Mapping[str, str]
  features: Mapping[str, Feature]

  @property
  def missing(self) -> dict[str, tuple[str, str]]:
    """The kind of failure of each series whose tests cannot run, and why."""
    return {
        suite.series: ('wrong' if feature.is_present else 'lacks', feature.how)
        for suite, feature in zip(SUITES, self.features.values())
        if not suite.always and not (feature.is_present and feature.is_on)
    }


def probe() -> ProbeResult:
  """Probes this Python's torch_xla and its features.

  Raises:
    BehaviourError: it has none, or one that cannot be imported or used.
  """
  with tempfile.TemporaryDirectory(prefix='behaviour-') as place:
    facts = _ask(place)
    if 'missing' in facts:
      raise BehaviourError(
          f'{sys.executable} has no {facts["missing"]}: install this suite '
          'where the torch_xla is that is to be judged')
    for key, message in (('import', 'cannot be imported'), ('error',
                                                            'does not work')):
      if key in facts:
        raise BehaviourError(f'{sys.executable} has a torch_xla that {message}:'
                             f'\n{_last_lines(facts[key])}')
    present = [Feature(*facts.pop(s.feature)) for s in SUITES]
    with futures.ThreadPoolExecutor() as pool:
      switched = pool.map(lambda s, f: _switched_on(s, f, place), SUITES,
                          present)
    return ProbeResult(facts, {s.series: f for s, f in zip(SUITES, switched)})


def environment() -> dict[str, str]:
  """The variables that processes of the suite run with."""
  variables = {
      k: v for k, v in os.environ.items() if not k.startswith(_LEFT_OUT)
  }
  # XLA's own talk would drown the rest.
  return {'TF_CPP_MIN_LOG_LEVEL': '2'} | variables | {'PYTHONUNBUFFERED': '1'}


def _ask(place: str, *arguments: str) -> dict[str, Any]:
  command = [sys.executable, '-m', f'{__package__}.probe', *arguments]
  try:
    process = subprocess.run(
        command,
        cwd=place,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors='replace',
        timeout=_SECONDS,
        check=False)
  except subprocess.TimeoutExpired:
    return {'error': f'no end within {_SECONDS} s'}
  try:
    answer: dict[str, Any] = json.loads(process.stdout)
    return answer
  except ValueError:
    return {
        'error': f'{process.stderr}\nthe process ended with status '
                 f'{process.returncode}'
    }


def _switched_on(suite: Suite, feature: Feature, place: str) -> Feature:
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
