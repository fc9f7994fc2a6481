"""Installs a wheel for the running Python, as a user does, and trains with it.

The last line printed is the outcome, as JSON. It is run by its path, in
whichever Python the wheel is for, so it imports nothing of infra, which needs
a newer one.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from pathlib import Path
import subprocess
import sys
import tempfile

_ENVIRONMENT = Path(__file__).with_name('environment.py')
_TRAINING = Path(__file__).with_name('training.py')
_TRAINING_SECONDS = 300
# What would change what is trained, or which packages are found.
_OF_THE_USER = ('CPU_NUM_DEVICES', 'LIBTPU', 'PJRT_', 'PYTHON', 'TPU_',
                'VIRTUAL_ENV', 'XLA_', 'CONVERT_SHLO_TO_SHARDY')

PASSED, FAILED, NOT_RUN = 'passed', 'failed', 'not run'


@dataclasses.dataclass(frozen=True)
class Outcome:
  """The outcome of a smoke test.

  Attributes:
    verdict: `PASSED`, `FAILED`, or `NOT_RUN`: what it takes is missing.
    text: what was seen, or the reason.
  """
  verdict: str
  text: str


def smoke(wheel: Path, torch: str, folder: Path) -> Outcome:
  """Tries `wheel` in a new environment.

  Args:
    wheel: is for the running Python.
    torch: the item for torch.
    folder: gets the environment.
  """
  environment = {
      k: v for k, v in os.environ.items() if not k.startswith(_OF_THE_USER)
  }
  process = _run(
      [sys.executable, str(_ENVIRONMENT), 'environment'], environment, folder)
  if process.returncode:
    return Outcome(NOT_RUN, f'no environment could be made: {_end(process)}')
  python = folder / 'environment' / 'bin' / 'python'
  pip = [
      str(python), '-m', 'pip', 'install', '--quiet', '--no-input',
      '--no-compile'
  ]
  for item, missing in ((torch, NOT_RUN), (f'{wheel}[cpu]', FAILED)):
    process = _run([*pip, item], environment, folder)
    if process.returncode:
      return Outcome(missing, f'pip could not install {item}: {_end(process)}')
  try:
    process = _run([str(python), str(_TRAINING)], environment, folder,
                   _TRAINING_SECONDS)
  except subprocess.TimeoutExpired:
    return Outcome(FAILED, f'training took longer than {_TRAINING_SECONDS} s')
  if process.returncode:
    return Outcome(FAILED, f'training ended early: {_end(process)}')
  return judge(json.loads(process.stdout.splitlines()[-1]))


def judge(seen: dict) -> Outcome:
  """Judges what training.py printed."""
  losses, partitioners = seen['losses'], seen['partitioners']
  text = (f'Python {seen["python"]}, torch {seen["torch"]}: '
          f'{seen["modules"]} modules imported, '
          f'loss {losses[0]:.4f} -> {losses[-1]:.4f} in {len(losses)} steps, '
          f'{len(partitioners)} programs')
  if not losses[-1] < losses[0]:
    return Outcome(FAILED, f'{text}; the loss did not fall')
  others = sorted(set(partitioners) - {'shardy'})
  if others or not partitioners:
    return Outcome(
        FAILED, f'{text}, partitioned by {", ".join(others) or "nobody"} '
        'and not by Shardy')
  return Outcome(PASSED, f'{text} by Shardy')


def _run(command: list[str],
         environment: dict[str, str],
         folder: Path,
         seconds: int | None = None) -> subprocess.CompletedProcess:
  return subprocess.run(
      command,
      cwd=folder,
      env=environment,
      capture_output=True,
      text=True,
      timeout=seconds,
      check=False)


def _end(done: subprocess.CompletedProcess) -> str:
  """The last error or line of a program's output."""
  lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
  errors = [line for line in lines if line.startswith('ERROR: ')] or lines
  return errors[-1] if errors else f'status {done.returncode}'


def main(arguments: list[str] | None = None) -> None:
  """Runs the command line."""
  parser = argparse.ArgumentParser(prog='smoke.py', description=__doc__)
  parser.add_argument('wheel', type=Path)
  parser.add_argument('torch', help='the requirement for torch')
  options = parser.parse_args(arguments)
  with tempfile.TemporaryDirectory(prefix='smoke-') as folder:
    outcome = smoke(options.wheel.resolve(), options.torch, Path(folder))
  print(json.dumps(dataclasses.asdict(outcome)))


if __name__ == '__main__':
  main()
