"""Tries a wheel on the Python that it is for, where there is one."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
import re
import shutil
import subprocess

from infra.errors import BuildError
from infra.release.smoke import FAILED, NOT_RUN, Outcome

_REQUIREMENTS = 'infra/requirements.txt'
# Most of it is pip, which fetches torch.
_SECONDS = 1800


@dataclasses.dataclass(frozen=True)
class Trial:
  """A wheel that was tried, or was not.

  Attributes:
    python: as in '3.11'.
    where: which Python of that version, or '-'.
    outcome: what came of it.
  """
  python: str
  where: str
  outcome: Outcome

  def __str__(self) -> str:
    return (f'Python {self.python}: {self.outcome.verdict}: '
            f'{self.outcome.text}')


def try_wheel(root: Path, python: str, wheel: Path) -> Trial:
  """Installs a wheel and trains with it, if its Python is there."""
  name = f'python{python}'
  program = shutil.which(name)
  if not program or subprocess.run([program, '-c', 'import ensurepip, venv'],
                                   capture_output=True,
                                   check=False).returncode:
    return Trial(
        python, '-',
        Outcome(NOT_RUN, f'no {name} on the PATH that makes environments'))
  torch = _torch((root / _REQUIREMENTS).read_text(encoding='utf-8'))
  try:
    process = subprocess.run(
        [program, 'infra/release/smoke.py',
         str(wheel), torch],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False)
  except subprocess.TimeoutExpired:
    outcome = Outcome(FAILED, f'no end after {_SECONDS} s')
  else:
    outcome = _outcome(process)
  return Trial(python, f'{name} on the PATH', outcome)


def _outcome(process: subprocess.CompletedProcess) -> Outcome:
  """The outcome in the last line of the smoke test."""
  try:
    return Outcome(**json.loads(process.stdout.splitlines()[-1]))
  except (IndexError, TypeError, ValueError):
    last_line = (process.stderr.strip().splitlines() or ['nothing'])[-1]
    return Outcome(
        FAILED,
        f'the smoke test ended with status {process.returncode}: {last_line}')


def _torch(requirements: str) -> str:
  """The requirement for torch among those of a file."""
  pinned = re.search(r'^torch==\S+$', requirements, re.MULTILINE)
  if not pinned:
    raise BuildError(f'{_REQUIREMENTS} pins no torch: add a line torch==...')
  return pinned[0]
