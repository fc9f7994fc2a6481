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
class ProbeResult:
  """The result of the probe.

  Attributes:
    facts: which torch_xla it is.
    features: by the name of their series, the kind of failure of all its tests
      ('lacks' if the feature is not there, 'wrong' if it cannot be switched on,
      empty if it can), and by what that was found.
  """
  facts: Mapping[str, str]
  features: Mapping[str, tuple[str, str]]

  @property
  def missing(self) -> dict[str, tuple[str, str]]:
    """The features of the series whose tests cannot run."""
    return {
        suite.series: self.features[suite.series]
        for suite in SUITES
        if suite.environment and self.features[suite.series][0]
    }


def probe() -> ProbeResult:
  """Probes this Python's torch_xla and its features.

  Raises:
    BehaviourError: it has none, or one that cannot be imported or used.
  """
  with tempfile.TemporaryDirectory(prefix='behaviour-') as place:
    facts = _ask(place)
    if 'error' in facts:
      raise BehaviourError(f'{sys.executable} {facts["error"]}')
    features = facts.pop('features')
    with futures.ThreadPoolExecutor() as pool:
      switched = pool.map(
          lambda suite: _switched_on(suite, *features[suite.series], place),
          SUITES)
      return ProbeResult(facts, {
          s.series: feature for s, feature in zip(SUITES, switched)
      })


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
    answer: dict[str, Any] = json.loads(process.stdout)
    return answer
  except subprocess.TimeoutExpired:
    why = f'no end within {_SECONDS} s'
  except ValueError:
    lines = process.stderr.strip().splitlines()[-5:]
    why = '\n'.join(
        [*lines, f'the process ended with status {process.returncode}'])
  return {'error': f'has a torch_xla that does not work:\n{why}'}


def _switched_on(suite: Suite, is_present: bool, how: str,
                 place: str) -> tuple[str, str]:
  """The feature, with what came of switching it on."""
  if not is_present:
    return 'lacks', how
  if not suite.environment:
    return '', how
  answer = _ask(place, suite.environment)
  if 'error' in answer:
    why = answer['error'].rpartition('\n')[2]
    return 'wrong', f'{how}; it cannot be switched on: {why}'
  version = 'V2' if '<=' in answer['text'] else 'V1'
  return '', f'{how}; shardings are read back as {version}'
