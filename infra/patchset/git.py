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

_CONFLICT = re.compile(rb'^<{7} ours\n.*?^>{7} theirs\n?',
                       re.MULTILINE | re.DOTALL)
# A conflict of lines that both sides insert.
_INSERTIONS = re.compile(
    rb'^<{7} ours\n(.*?)^\|{7} base\n={7}\n(.*?)^>{7} theirs\n',
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
        env: dict[str, str] | None = None,
        given: str | None = None,
        text: bool = True) -> subprocess.CompletedProcess:
  """Runs git in `folder`; the caller looks at the return code.

  Args:
    folder: where to run it.
    *arguments: git's.
    env: variables on top of this process's.
    given: what git reads from its standard input.
    text: whether to decode what it prints.
  """
  environ = {
      k: v for k, v in os.environ.items() if k not in _REPOSITORY_VARIABLES
  } | {
      'LC_ALL': 'C'
  } | (
      env or {})
  return subprocess.run([find_git(), *arguments],
                        cwd=folder,
                        env=environ,
                        input=given,
                        capture_output=True,
                        encoding='utf-8' if text else None,
                        check=False)


def need(folder: Path, *arguments: str, given: str | None = None) -> str:
  """Runs git in `folder` and returns what it prints.

  Raises:
    BuildError: git fails.
  """
  process = run(folder, *arguments, given=given)
  if process.returncode:
    message = (process.stderr or process.stdout).strip()
    raise BuildError(f'git {_verb(arguments)} failed: {message}')
  return process.stdout.strip()


def read(folder: Path, *arguments: str) -> bytes:
  """Runs git as `need` does, and returns what it prints as bytes."""
  process = run(folder, *arguments, text=False)
  if process.returncode:
    message = process.stderr.decode(errors='replace').strip()
    raise BuildError(f'git {_verb(arguments)} failed: {message}')
  return process.stdout


def _verb(arguments: tuple[str, ...]) -> str:
  """The command of git: the first argument behind the settings."""
  if arguments[0] == '-c':
    return _verb(arguments[2:])
  return arguments[0]


def apply_outside(folder: Path, diff: str) -> str:
  """Applies a diff without context to a folder that is no repository.

  Returns:
    What git complains about, or an empty text.
  """
  folder = folder.resolve()
  # Were a repository found above the folder, git would take the patch's paths
  # for paths in it and skip every one of them without a word. The user's
  # settings, such as apply.whitespace, must not touch the result either.
  process = run(
      folder,
      'apply',
      '--unidiff-zero',
      '--whitespace=nowarn',
      given=diff,
      env={
          'GIT_CEILING_DIRECTORIES': str(folder.parent),
          'GIT_CONFIG_GLOBAL': os.devnull,
          'GIT_CONFIG_SYSTEM': os.devnull,
      })
  return process.stderr.strip() if process.returncode else ''


def merge_files(ours: bytes, base: bytes, theirs: bytes) -> bytes:
  """Merges two changes of a file; conflicts are marked as diff3 does."""
  if base in (ours, theirs):
    return theirs if ours == base else ours
  with tempfile.TemporaryDirectory(prefix='series-') as name:
    for file, data in (('ours', ours), ('base', base), ('theirs', theirs)):
      (Path(name) / file).write_bytes(data)
    return run(
        Path(name),
        'merge-file',
        '-p',
        '--diff3',
        'ours',
        'base',
        'theirs',
        text=False).stdout


def take_both(merged: bytes) -> bytes | None:
  """Resolves conflicts of lines that both insert; None if others are left.

  Ours come first.
  """
  # Not with --union, which takes lines between two conflicts for parts of both.
  if all(map(_INSERTIONS.fullmatch, conflicts(merged))):
    return _INSERTIONS.sub(rb'\1\2', merged)
  return None


def conflicts(merged: bytes) -> list[bytes]:
  """The conflicts in a merged file, with their marks."""
  return _CONFLICT.findall(merged)
