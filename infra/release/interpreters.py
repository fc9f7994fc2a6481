"""Finds the Pythons that a wheel can be tried on."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
import shutil
import subprocess
from typing import Mapping

# The Python that a root of Debian trixie has: infra/trixie.sh.
_OF_TRIXIE = '3.13'
_TRIXIE_ROOT = 'build/trixie'
_ASK = ('-c', 'import ensurepip, sys, venv; print(*sys.version_info[:2], '
        "sep='.')")
_SECONDS = 60


@dataclasses.dataclass(frozen=True)
class Interpreter:
  """A Python that is there.

  Attributes:
    command: what stands before its arguments.
    where: where it is, for people.
  """
  command: tuple[str, ...]
  where: str


@dataclasses.dataclass(frozen=True)
class Missing:
  """Why there is no Python of a version, and what to do for one."""
  reason: str


def find(root: Path,
         python: str,
         environment: Mapping[str, str] = os.environ) -> Interpreter | Missing:
  """Looks for a Python, on the PATH first.

  Args:
    root: the checkout.
    python: the version, as in '3.11'.
    environment: has the PATH.
  """
  name = f'python{python}'
  found = shutil.which(name, path=environment.get('PATH'))
  if found and not (reason := _wrong((found,), python, root)):
    return Interpreter((found,), f'{name} on the PATH')
  missing = (f'{found} does not work: {reason}'
             if found else f'no {name} on the PATH')
  if python != _OF_TRIXIE:
    return Missing(missing)
  if not (root / _TRIXIE_ROOT).is_dir():
    return Missing(f'{missing}, and no root of Debian trixie '
                   '(bash infra/trixie.sh make makes one)')
  command = ('bash', str(root / 'infra/trixie.sh'), 'run', name)
  reason = _wrong(command, python, root)
  if reason:
    return Missing(f'{missing}; {_TRIXIE_ROOT} cannot be used: {reason}')
  return Interpreter(command, f'Debian trixie in {_TRIXIE_ROOT}')


def _wrong(command: tuple[str, ...], python: str, root: Path) -> str:
  """Why a command is not the Python that it should be; '' if it is."""
  try:
    process = subprocess.run([*command, *_ASK],
                             cwd=root,
                             capture_output=True,
                             text=True,
                             timeout=_SECONDS,
                             check=False)
  except (OSError, subprocess.TimeoutExpired) as error:
    return str(error)
  if process.returncode:
    said = process.stderr.strip().splitlines()
    return said[-1 if said[0].startswith('Traceback') else 0] if said else (
        f'status {process.returncode}')
  version = process.stdout.strip()
  return '' if version == python else f'it is Python {version}'
