"""Runs git, free of what the caller's environment says about repositories."""

import os
from pathlib import Path
import re
import shutil
import subprocess
import tempfile

from infra.errors import BuildError

# What a hook's or an alias's environment may carry, and what would point git
# at another repository than the folder it runs in.
_REPOSITORY_VARIABLES = ('GIT_DIR', 'GIT_WORK_TREE', 'GIT_INDEX_FILE',
                         'GIT_PREFIX', 'GIT_COMMON_DIR', 'GIT_NAMESPACE',
                         'GIT_OBJECT_DIRECTORY',
                         'GIT_ALTERNATE_OBJECT_DIRECTORIES')

# A conflict as `merge_files` marks it: ours, the base and theirs.
CONFLICT = re.compile(
    rb'^<{7} ours\n(.*?)^\|{7} base\n(.*?)^={7}\n(.*?)^>{7} theirs\n?',
    re.MULTILINE | re.DOTALL)


def find_git() -> str:
  """The path of git.

  Raises:
    BuildError: there is none.
  """
  path = shutil.which('git')
  if not path:
    raise BuildError('git is not on the path, and patches are applied with it. '
                     'Install it (Debian and Ubuntu: apt-get install git).')
  return path


def run(folder: Path,
        *arguments: str,
        given: bytes | None = None,
        text: bool = True) -> subprocess.CompletedProcess:
  """Runs git in `folder`; the caller looks at the return code.

  Args:
    folder: where to run it.
    *arguments: git's.
    given: what git reads from its standard input.
    text: whether to decode what it prints.
  """
  environ = {
      k: v for k, v in os.environ.items() if k not in _REPOSITORY_VARIABLES
  }
  process = subprocess.run([find_git(), *arguments],
                           cwd=folder,
                           env=environ | {'LC_ALL': 'C'},
                           input=given,
                           capture_output=True,
                           check=False)
  if text:
    process.stdout = process.stdout.decode()
  return process


def read(folder: Path, *arguments: str, given: bytes | None = None) -> bytes:
  """Runs git in `folder` and returns what it prints.

  Raises:
    BuildError: git fails.
  """
  process = run(folder, *arguments, given=given, text=False)
  if process.returncode:
    verb = [*arguments]
    while verb[0] == '-c':
      del verb[:2]
    message = (process.stderr or process.stdout).decode(errors='replace')
    raise BuildError(f'git {verb[0]} failed: {message.strip()}')
  return process.stdout


def need(folder: Path, *arguments: str, given: str = '') -> str:
  """The text that git prints, as `read`, without blanks around it."""
  return read(folder, *arguments, given=given.encode()).decode().strip()


def merge_files(ours: bytes, base: bytes, theirs: bytes) -> bytes:
  """Merges two changes of a file; conflicts are marked as diff3 does."""
  if base in (ours, theirs):
    return theirs if ours == base else ours
  sides = {'ours': ours, 'base': base, 'theirs': theirs}
  with tempfile.TemporaryDirectory(prefix='series-') as name:
    for side, data in sides.items():
      (Path(name) / side).write_bytes(data)
    command = ('merge-file', '-p', '--diff3', *sides)
    return run(Path(name), *command, text=False).stdout


def take_both(merged: bytes) -> bytes | None:
  """Resolves conflicts of lines that both insert; None if others are left.

  Ours come first.
  """
  # Not with --union, which takes lines between two conflicts for parts of both.
  if any(base for _, base, _ in CONFLICT.findall(merged)):
    return None
  return CONFLICT.sub(rb'\1\3', merged)
