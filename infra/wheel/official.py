"""Fetches the official wheel and checks it against the pinned hash."""

import hashlib
import os
from pathlib import Path
import shutil
import subprocess
import sys
import tempfile
from typing import Mapping
import zipfile

from infra.errors import BuildError, Say
from infra.wheel import pins


def running_python() -> str:
  """The version of this Python, as in '3.11'."""
  return f'{sys.version_info.major}.{sys.version_info.minor}'


def default_cache(root: Path) -> Path:
  """Where the checkout at `root` keeps official wheels."""
  return root / 'build' / 'wheels'


def sha256(path: Path) -> str:
  """The hex digest of a file."""
  with path.open('rb') as file:
    return hashlib.file_digest(file, 'sha256').hexdigest()


def pinned_hash(python: str, pinned: Mapping[str, str]) -> str:
  """The pinned hash for a Python.

  Raises:
    BuildError: no official wheel is pinned for `python`.
  """
  if python not in pinned:
    raise BuildError(
        f'Python {python} has no pinned official wheel. Pinned are '
        f'{", ".join(pinned)}: choose one of them with --python.')
  return pinned[python]


def official_wheel(
    python: str,
    cache: Path,
    say: Say,
    pinned: Mapping[str, str] = pins.OFFICIAL_SHA256,
) -> Path:
  """The official wheel for `python`, from `cache` or fetched into it.

  Raises:
    BuildError: no wheel is pinned for `python`, it cannot be fetched, or what
      was fetched has another hash.
  """
  expected = pinned_hash(python, pinned)
  wheel = cache / pins.wheel_name(pins.OFFICIAL_VERSION, python)
  if wheel.exists():
    actual = sha256(wheel)
    if actual == expected:
      say(f'cached: {wheel}')
      return wheel
    say(f'{wheel} is damaged (sha256 {actual}, expected {expected}): removed, '
        'fetching it again')
    wheel.unlink()
  cache.mkdir(parents=True, exist_ok=True)
  # Fetched beside its place and moved there only when it is the right file.
  with tempfile.TemporaryDirectory(dir=cache, prefix='fetch-') as folder:
    say(f'fetching {wheel.name}, 80 MB')
    fetched = _download(python, Path(folder))
    actual = sha256(fetched)
    if actual != expected:
      raise BuildError(
          f'{fetched.name} as fetched has the wrong sha256:\n'
          f'  expected {expected}\n  actual   {actual}\n'
          'Nothing was built. Check which package index pip uses (`pip config '
          'list`): it does not serve the official file.')
    os.replace(fetched, wheel)
  return wheel


def _download(python: str, folder: Path) -> Path:
  """Downloads the official wheel into `folder` by pip."""
  command = [
      sys.executable, '-m', 'pip', '--disable-pip-version-check', '--quiet',
      'download', '--no-input', '--no-cache-dir', '--no-deps', '--only-binary',
      ':all:', '--python-version', python, '--implementation', 'cp',
      '--platform', pins.PLATFORM, '--dest',
      str(folder), f'{pins.PACKAGE}=={pins.OFFICIAL_VERSION}'
  ]
  done = subprocess.run(command, capture_output=True, text=True, check=False)
  name = pins.wheel_name(pins.OFFICIAL_VERSION, python)
  if done.returncode or not (folder / name).exists():
    message = '\n'.join((done.stderr + done.stdout).strip().splitlines()[-4:])
    raise BuildError(
        f'pip could not fetch {name}:\n{message}\nCheck the network and the '
        'package index of pip, then run this again.')
  return folder / name


def open_wheel(path: Path) -> zipfile.ZipFile:
  """Opens a wheel for reading.

  Raises:
    BuildError: the file is no zip archive.
  """
  try:
    return zipfile.ZipFile(path)
  except (zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError) as error:
    raise BuildError(f'{path} is not a wheel: {error}') from error


def unpacked(wheel: Path, root: Path) -> Path:
  """An official wheel's files in a folder under build/, kept there."""
  folder = root / 'build' / 'unpacked' / wheel.stem
  if not folder.is_dir():
    part = folder.with_name(f'{folder.name}.part')
    shutil.rmtree(part, ignore_errors=True)
    with open_wheel(wheel) as archive:
      archive.extractall(part)
    os.rename(part, folder)
  return folder
