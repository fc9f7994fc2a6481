"""Probes a torch_xla for features, in processes of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
import json
import os
import subprocess
import sys
import tempfile

from .suites import SUITES

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
    features: by the name of their series, whether there is one, and by what that
      was found.
  """
  facts: Mapping[str, str]
  features: Mapping[str, tuple[bool, str]]

  @property
  def missing(self) -> dict[str, str]:
    """Why the tests of some series cannot run, by its name."""
    return {
        suite.series: self.features[suite.series][1]
        for suite in SUITES
        if suite.needs_feature and not self.features[suite.series][0]
    }


def probe() -> ProbeResult:
  """Probes this Python's torch_xla and its features.

  Raises:
    BehaviourError: it has none, or one that cannot be imported or used.
  """
  # No folder there is called as a package.
  with tempfile.TemporaryDirectory(prefix='behaviour-') as place:
    try:
      process = subprocess.run([sys.executable, '-m', f'{__package__}.probe'],
                               cwd=place,
                               env=environment(),
                               stdin=subprocess.DEVNULL,
                               capture_output=True,
                               text=True,
                               errors='replace',
                               timeout=_SECONDS,
                               check=False)
      facts = json.loads(process.stdout)
    except subprocess.TimeoutExpired:
      facts = {'error': f'does not work: no end within {_SECONDS} s'}
    except ValueError:
      lines = [
          'does not work:', *process.stderr.strip().splitlines()[-5:],
          f'the process ended with status {process.returncode}'
      ]
      facts = {'error': '\n'.join(lines)}
  if 'missing' in facts:
    raise BehaviourError(
        f'{sys.executable} has no {facts["missing"]}: install this suite where '
        'the torch_xla is that is to be judged')
  if 'error' in facts:
    raise BehaviourError(
        f'{sys.executable} has a torch_xla that {facts["error"]}')
  return ProbeResult(facts, facts.pop('features'))


def environment() -> dict[str, str]:
  """The variables that processes of the suite run with."""
  variables = {
      k: v for k, v in os.environ.items() if not k.startswith(_LEFT_OUT)
  }
  # XLA's own talk would drown the rest.
  return {'TF_CPP_MIN_LOG_LEVEL': '2'} | variables | {'PYTHONUNBUFFERED': '1'}
