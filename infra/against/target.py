"""The torch_xla that is judged: somebody's interpreter, or a wheel."""

from __future__ import annotations

from dataclasses import dataclass
import json
import os
from pathlib import Path
import platform
import shutil
import subprocess
import sys

from infra.errors import BuildError
from infra.wheel import official, pins

# What decides how Python or the runtime starts, and is not this process's to
# hand on: least of all a path to a torch_xla that is not the target's.
_LEFT_OUT = ('PYTHON', 'PYTEST', 'XLA_', 'PJRT_', 'CONVERT_SHLO_TO_SHARDY',
             'CPU_NUM_', 'TPU_', 'PT_XLA_', 'NPROC', 'LD_PRELOAD',
             '__PYVENV_LAUNCHER__')
_SECONDS = 300
_PYTHONS_ANSWER = ('import json, sys; '
                   'print(json.dumps(list(sys.version_info[:2])))')


class TargetError(BuildError):
  """Raised where there is nothing to judge; the text says what is missing."""


@dataclass(frozen=True)
class Target:
  """An interpreter, and where torch_xla is if not among its own packages.

  Attributes:
    python: the interpreter; a path as it was given, as a venv is known by it.
    folder: the unpacked wheel whose torch_xla is to be found first, or None.
  """
  python: Path
  folder: Path | None = None

  def environment(self, *modules: Path) -> dict[str, str]:
    """The variables of its processes: ours gone, these folders on the path."""
    variables = {
        k: v for k, v in os.environ.items() if not k.startswith(_LEFT_OUT)
    }
    path = [*([self.folder] if self.folder else []), *modules]
    if path:
      variables['PYTHONPATH'] = os.pathsep.join(map(str, path))
    # XLA's own talk would drown the rest.
    return {'TF_CPP_MIN_LOG_LEVEL': '2'} | variables | {'PYTHONUNBUFFERED': '1'}

  def run(self, arguments: list[str], place: Path, *modules: Path,
          **variables: str) -> subprocess.CompletedProcess:
    """Runs the interpreter in a folder, and gives what it said.

    Raises:
      TargetError: it cannot be started, or does not end.
    """
    try:
      return subprocess.run([str(self.python), *arguments],
                            cwd=place,
                            env=self.environment(*modules) | variables,
                            stdin=subprocess.DEVNULL,
                            capture_output=True,
                            text=True,
                            errors='replace',
                            timeout=_SECONDS,
                            check=False)
    except OSError as error:
      raise TargetError(f'{self.python} cannot be started: {error}') from None
    except subprocess.TimeoutExpired:
      raise TargetError(f'{self.python} did not end within {_SECONDS} s: '
                        f'{" ".join(arguments)[:60]}') from None


def of_python(python: str, work: Path) -> Target:
  """The target that an interpreter is.

  Args:
    python: a path, or a name on the PATH.
    work: a folder for the process to be in.

  Raises:
    TargetError: there is no such interpreter, or it is too old.
  """
  interpreter = shutil.which(python)
  if not interpreter:
    raise TargetError(f'{python} is no interpreter: give the path of a Python '
                      'that has torch and torch_xla installed, as '
                      '~/venv/bin/python')
  # Not resolved: what a link of a venv points to has none of its packages.
  target = Target(Path(os.path.abspath(interpreter)))
  process = target.run(['-c', _PYTHONS_ANSWER], work)
  try:
    version = tuple(json.loads(process.stdout))
  except ValueError:
    raise TargetError(
        f'{python} is no Python: it said '
        f'{(process.stdout + process.stderr).strip()[-200:]!r}') from None
  if version < (3, 10):
    raise TargetError(f'{python} is Python {version[0]}.{version[1]}; the '
                      'tests need 3.10 or newer')
  return target


def of_wheel(wheel: Path, root: Path) -> Target:
  """A target that is this Python with the torch_xla of a wheel first.

  The wheel is unpacked under build/against/, once for each content.

  Raises:
    TargetError: it is no torch_xla wheel that this Python can import.
  """
  if not wheel.is_file():
    raise TargetError(f'{wheel}: there is no such file')
  parts = wheel.name.removesuffix('.whl').split('-')
  if not wheel.name.endswith('.whl') or len(parts) not in (5, 6):
    raise TargetError(f'{wheel.name} is not named as a wheel is: '
                      'torch_xla-VERSION-PYTHON-ABI-PLATFORM.whl')
  if parts[0].replace('-', '_').lower() != pins.PACKAGE:
    raise TargetError(f'{wheel.name} is a wheel of {parts[0]}, not of '
                      f'{pins.PACKAGE}')
  python, abi, systems = parts[-3:]
  mine = f'cp{sys.version_info.major}{sys.version_info.minor}'
  if mine not in python.split('.') or mine not in abi.split('.'):
    raise TargetError(
        f'{wheel.name} is for {python}, and {sys.executable} is {mine}: '
        'install it for its own Python and name that with --against')
  machine = f'linux_{platform.machine()}'
  if sys.platform != 'linux' or not any(
      s.endswith(machine) or s.endswith(f'_{platform.machine()}')
      for s in systems.split('.')):
    raise TargetError(f'{wheel.name} is for {systems}, and this machine is '
                      f'{machine}')
  folder = _unpacked(wheel, root / 'build' / 'against' / parts[1] / mine)
  if not (folder / pins.PACKAGE / '__init__.py').is_file():
    raise TargetError(f'{wheel.name} holds no {pins.PACKAGE}/__init__.py')
  return Target(Path(os.path.abspath(sys.executable)), folder)


def _unpacked(wheel: Path, folder: Path) -> Path:
  """The wheel's files, in `folder` or what is there of the same content."""
  stamp = folder / 'unpacked-from'
  digest = official.sha256(wheel)
  if not stamp.is_file() or stamp.read_text() != digest:
    part = folder.with_name(f'{folder.name}.{os.getpid()}.part')
    part.mkdir(parents=True)
    try:
      with official.open_wheel(wheel) as archive:
        archive.extractall(part)
      (part / stamp.name).write_text(digest)
      shutil.rmtree(folder, ignore_errors=True)
      part.rename(folder)
    finally:
      shutil.rmtree(part, ignore_errors=True)
  return folder
