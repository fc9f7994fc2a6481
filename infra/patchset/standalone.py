"""Shows that a series needs nothing but what it depends on."""

from dataclasses import dataclass
import functools
import importlib.util
import os
from pathlib import Path
import shutil
import subprocess
import sys
import time
from typing import Callable, Mapping, Sequence

from infra.errors import BuildError, Say
from infra.patchset import files
from infra.patchset.apply import folder_reader, patched_files
from infra.patchset.manifest import load_manifest, Manifest
from infra.patchset.patch import wheel_patches
from infra.wheel import overlay, pins, plugins

# Which tests pytest runs of the files that it is given; infra/test.sh says the
# same of all.
CORE = ('--tier=core',)
WHOLE = ('--tier=whole',)

# A file of the official wheel beyond this is linked to. It is the extension
# module; one per series would be a gigabyte.
_LINKED_BYTES = 1 << 20
_IMPORT = '''\
import importlib, sys
import torch_xla
folder, *names = sys.argv[1:]
if not torch_xla.__file__.startswith(folder + '/'):
  sys.exit(f'torch_xla came from {torch_xla.__file__}, not from {folder}')
for name in names:
  importlib.import_module(name)
'''


class NotAlone(Exception):
  """A series that fails by itself: its text says at what."""


def check_alone(root: Path,
                wheel: Path,
                only: str | None = None,
                arguments: Sequence[str] = (),
                say: Say = print) -> bool:
  """Lays, imports and tests each series alone, in build/series/.

  Args:
    root: the checkout of this project.
    wheel: the unpacked official wheel.
    only: just this series.
    arguments: further ones for pytest.
    say: is told about progress, and a line per series at the end.

  Returns:
    Whether all that was asked for stand alone.

  Raises:
    BuildError: this Python cannot run tests, or a series cannot be laid.
  """
  for module in ('torch', 'pytest'):
    if not importlib.util.find_spec(module):
      raise BuildError(f'{sys.executable} has no {module}, which the tests of '
                       'the series need: run this with .venv/bin/python, which '
                       'infra/test.sh sets up, or with --no-run')
  manifest = load_manifest(root)
  chosen = [manifest.find(only)] if only else manifest.series
  built_plugins = functools.cache(
      lambda: plugins.build_plugins(root, plugins.find_bazel()))
  ends = []
  failed = False
  for series in chosen:
    if not (series.wheel or series.overlay or series.tests):
      ends.append(f'{series.name}: nothing for the wheel')
      continue
    alone = Alone(root, manifest, series.name,
                  root / 'build' / 'series' / series.name)
    say(f'==> {series.name} in {alone.folder}')
    start = time.monotonic()
    shutil.rmtree(alone.folder, ignore_errors=True)
    alone.lay(wheel, built_plugins)
    try:
      alone.import_all()
      end = alone.run_tests(arguments, say)
    except NotAlone as error:
      failed = True
      end = f'FAILED: {error}'
    ends.append(f'{series.name}: {end}, {time.monotonic() - start:.0f} s')
  for end in ends:
    say(end)
  return not failed


@dataclass(frozen=True)
class Alone:
  """A series with what it depends on, and nothing else of ours.

  Attributes:
    root: the checkout of this project.
    manifest: its series.
    name: the series.
    folder: gets the official wheel with the series laid on it, and the tests,
      placed as in a checkout of upstream.
  """
  root: Path
  manifest: Manifest
  name: str
  folder: Path

  def lay(self, wheel: Path,
          built_plugins: Callable[[], Mapping[str, bytes]]) -> None:
    """Fills the folder, which must not exist.

    Args:
      wheel: the unpacked official wheel. Its files are not changed.
      built_plugins: gives the plugins in C; called if the series has one.

    Raises:
      BuildError: a patch does not apply, or a plugin cannot be built.
    """
    chosen = self.manifest.with_dependencies(self.name)
    shutil.copytree(wheel, self.folder, copy_function=_copy)
    patches = [patch for s in chosen for patch in wheel_patches(self.root, s)]
    ours = patched_files(folder_reader(wheel), patches)
    # Upstream's test/ is a package, and its settings are not ours.
    ours |= {'test/__init__.py': b'', 'pytest.ini': b''}
    names = files.test_base(self.root, self.manifest)
    for series in chosen:
      names += files.overlay_of(self.root, self.manifest, series.name)
      names += files.tests_of(self.root, self.manifest, series.name)
    ours |= {name: (self.root / name).read_bytes() for name in names}
    for member, package in pins.PLUGINS.items():
      if any(name.startswith(f'{package}/') for name in names):
        ours[member] = built_plugins()[member]
    for name, data in ours.items():
      path = self.folder / name
      path.parent.mkdir(parents=True, exist_ok=True)
      path.write_bytes(data)

  def import_all(self) -> None:
    """Imports each module of the series and of what it depends on.

    Raises:
      NotAlone: one cannot be imported, or torch_xla is another one.
    """
    names = [
        path for series in self.manifest.with_dependencies(self.name)
        for path in files.overlay_of(self.root, self.manifest, series.name)
    ]
    modules = [
        name.removesuffix('.py').removesuffix('/__init__').replace('/', '.')
        for name in overlay.files_of_wheel(names)
        if name.endswith('.py')
    ]
    process = subprocess.run(
        [sys.executable, '-c', _IMPORT,
         str(self.folder), *modules],
        cwd=self.folder,
        env=self._environment(),
        capture_output=True,
        text=True,
        check=False)
    if process.returncode:
      message = '\n'.join(process.stderr.strip().splitlines()[-12:])
      raise NotAlone(f'it cannot be imported:\n{message}')

  def run_tests(self, arguments: Sequence[str], say: Say) -> str:
    """Runs the series' own tests, not those of what it depends on.

    Args:
      arguments: further ones for pytest.
      say: is told each line that pytest prints.

    Returns:
      What pytest says at the end: how many tests passed, and so on.

    Raises:
      NotAlone: a test failed, or none was found.
    """
    tests = files.tests_of(self.root, self.manifest, self.name)
    last = ''
    with subprocess.Popen([
        sys.executable, '-m', 'pytest', '-ra', '-p', 'no:cacheprovider',
        '--continue-on-collection-errors', *arguments,
        *(name for name in tests if name.endswith('_test.py'))
    ],
                          cwd=self.folder,
                          env=self._environment(),
                          stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT,
                          text=True,
                          errors='replace') as process:
      for line in process.stdout:
        say(line.rstrip('\n'))
        last = line.strip('= \n') or last
    if process.returncode:
      raise NotAlone(last)
    return last

  def _environment(self) -> dict[str, str]:
    """This process's variables, with the folder's modules first."""
    environ = {k: v for k, v in os.environ.items() if k != 'PYTEST_ADDOPTS'}
    return environ | {'PYTHONPATH': str(self.folder), 'PYTHONUNBUFFERED': '1'}


def _copy(source: str, target: str) -> None:
  if os.path.getsize(source) > _LINKED_BYTES:
    os.symlink(os.path.abspath(source), target)
  else:
    shutil.copyfile(source, target)
