"""Builds the plugins in C and libgraph_identity.so with Bazel."""

import os
from pathlib import Path
import re
import shutil
import subprocess

from infra.errors import BuildError
from infra.wheel import pins

# As in .bazelrc: Bazel links its output folders from here.
_LINKS = 'build/bazel-'

_HOW_TO_GET = ('Install one (Debian and Ubuntu: apt-get install '
               'bazel-bootstrap), or name it: BAZEL=/path/to/bazel.')


def find_bazel() -> str:
  """The Bazel to use: $BAZEL, or the one on the path.

  Raises:
    BuildError: there is none.
  """
  named = os.environ.get('BAZEL')
  path = shutil.which(named or 'bazel')
  if path:
    return path
  where = f'BAZEL={named} is no program' if named else 'no bazel on the path'
  raise BuildError(f'The plugins are built with Bazel: {where}. {_HOW_TO_GET}')


def build_plugins(root: Path, bazel: str) -> dict[str, bytes]:
  """Builds the plugins of the checkout at `root`.

  Returns:
    Each library by where the wheel holds it.

  Raises:
    BuildError: the build fails or makes no shared libraries.
  """
  # No server stays behind, and all that Bazel writes is under build/.
  command = [
      bazel, '--batch', f'--output_user_root={root / "build" / "bazel-root"}',
      'build', f'--symlink_prefix={_LINKS}'
  ]
  targets = {
      member: (package, Path(member).name)
      for member, package in pins.PLUGINS.items()
  }
  command += [f'//{package}:{name}' for package, name in targets.values()]
  done = subprocess.run(
      command, cwd=root, capture_output=True, text=True, check=False)
  if done.returncode:
    message = '\n'.join(done.stderr.strip().splitlines()[-30:])
    raise BuildError(f'`{" ".join(command)}` failed:\n{message}')
  return {
      member: _read(root / f'{_LINKS}bin' / package / name)
      for member, (package, name) in targets.items()
  }


def _read(library: Path) -> bytes:
  """Reads and checks the libraries that Bazel built."""
  try:
    data = library.read_bytes()
  except OSError as error:
    raise BuildError(f'Bazel built no {library.name}: {error}') from error
  if not data.startswith(b'\x7fELF'):
    raise BuildError(f'{library} is not a shared library')
  check_glibc(library.name, data)
  return data


def check_glibc(name: str, library: bytes) -> None:
  """Checks that a library runs with the glibc that the wheel's tag promises.

  Raises:
    BuildError: it needs a newer one.
  """
  needs = [int(minor) for minor in re.findall(rb'GLIBC_2\.(\d+)', library)]
  if max(needs, default=0) > pins.GLIBC_MINOR:
    raise BuildError(
        f'{name} needs glibc 2.{max(needs)}, and a wheel for '
        f'{pins.PLATFORM} must do with 2.{pins.GLIBC_MINOR}: avoid the newer '
        'symbol, or bind an older version of it with .symver')
