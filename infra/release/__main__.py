"""Makes a release: builds, tries and describes the wheels; dry unless told to.

Builds the wheels for Python 3.10 to 3.13 from a work tree of the commit that is
checked out, so that no file of the checkout that is in no commit can get into
one; one of them twice; and tries each in a new environment: it installs the wheel
with torch and trains a sharded model. That takes a Python of its version on the
PATH, and the package index; what is not there is named, here and in the notes.
Then come the bills of materials (*.cdx.json), SHA256SUMS, and NOTES.md with the
section of CHANGELOG.md.

All of it is made in build/release/VERSION, and a dry run changes nothing else.
--write copies the files to dist/ and prints which tag to make. It takes a dated
section in CHANGELOG.md, and replaces no wheel in dist/ by another. Nothing is
tagged or pushed.

Exit status: 0 if all is well, what was not tried aside; 1 if not.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
import functools
import os
from pathlib import Path
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = Path(__file__).resolve().parents[2]
if __name__ == '__main__':
  sys.path[0] = str(ROOT)

from infra.errors import BuildError, Say
from infra.patchset import git
from infra.patchset.worktree import work_tree
from infra.wheel import pins, plugins
from infra.wheel.bom import read_bom
from infra.wheel.build import build_wheel
from infra.wheel.official import default_cache, sha256
from infra.wheel.pure_wheel import build_pure_wheel, PureWheel
from infra.wheel.tools import TOOLS

_TORCH = f'torch=={pins.OFFICIAL_VERSION}'  # What it was built for.
_TAG = f'v{pins.VERSION}'
_TRAINING = Path(__file__).with_name('training.py')
# What would change what is trained, or which packages are found.
_OF_THE_USER = ('CPU_NUM_DEVICES', 'LIBTPU', 'PJRT_', 'PYTHON', 'TPU_',
                'VIRTUAL_ENV', 'XLA_', 'CONVERT_SHLO_TO_SHARDY')


def section(changelog: str, version: str) -> tuple[str, str]:
  """The heading behind a version, as in '(unreleased)', and its changes.

  Raises:
    BuildError: there are none.
  """
  match = re.search(
      rf'(?ms)^## +{re.escape(version)}(?= |$)([^\n]*)\n(.*?)(?=^## |\Z)',
      changelog)
  if not match or not match[2].strip():
    raise BuildError(
        f'CHANGELOG.md says nothing of {version}: add '
        f'`## {version} (unreleased)` and what changed, or correct '
        'VERSION in infra/wheel/pins.py')
  return match[1].strip(), match[2].strip()


def make_release(
    root: Path,
    *,
    dist: Path | None = None,
    pythons: Sequence[str] = tuple(pins.OFFICIAL_SHA256),
    built_plugins: Mapping[str, bytes] | None = None,
    tools: Sequence[PureWheel] = TOOLS,
    say: Say,
) -> Path:
  """Makes a release of the commit that is checked out, in build/release/.

  Args:
    root: the checkout.
    dist: gets the files as well, if all is well.
    pythons: to make wheels for.
    built_plugins: as `build_wheel` takes them.
    tools: the wheels beside them.
    say: is called with progress, line by line.

  Returns:
    The folder with its files.

  Raises:
    BuildError: the commit cannot be released, or a wheel is not right.
    OSError: a file cannot be written.
  """
  root = root.resolve()
  folder = root / 'build' / 'release' / pins.VERSION
  shutil.rmtree(folder, ignore_errors=True)
  folder.mkdir(parents=True)
  commit = git.need(root, 'rev-parse', 'HEAD')
  say(f'{pins.VERSION}, of commit {commit}')
  if git.need(root, 'status', '--porcelain'):
    say('files that differ from the commit are not in the release')
  trials = []
  with work_tree(root) as tree:
    git.need(tree, 'checkout', '--quiet', '--detach', commit)
    heading, changes = section(
        (tree / 'CHANGELOG.md').read_text(encoding='utf-8'), pins.VERSION)
    if dist:
      _check_releasable(root, commit, heading)
    say('building the plugins with Bazel')
    built_plugins = built_plugins or plugins.build_plugins(
        tree, plugins.find_bazel())

    def build(python: str, into: Path) -> Path:
      say(f'building the wheel for Python {python}')
      return build_wheel(
          tree,
          into,
          python,
          cache=default_cache(root),
          built_plugins=built_plugins,
          say=lambda line: None)

    wheels = {python: build(python, folder) for python in pythons}
    for wheel in wheels.values():
      (folder / f'{wheel.name}.cdx.json').write_bytes(read_bom(wheel))
    for tool in tools:
      build_pure_wheel(tree, folder, tool)
    with tempfile.TemporaryDirectory(dir=folder.parent) as again:
      if sha256(build(pythons[0], Path(again))) != sha256(wheels[pythons[0]]):
        raise BuildError(
            f'{wheels[pythons[0]].name}: two builds gave different bytes, so '
            'nobody could verify it. Find the input that changes.')
    for python, wheel in wheels.items():
      say(f'trying the wheel for Python {python} (minutes: pip fetches torch)')
      trials.append(f'Python {python}: {try_wheel(python, wheel)}')
      say(trials[-1])
  (folder / 'NOTES.md').write_text(
      f'# torch_xla {pins.VERSION}\n\nBuilt from {commit}. Check the files by '
      '`sha256sum --check SHA256SUMS`, and by `python -m infra.wheel verify '
      f'FILE` what a wheel is made of.\n\n## Changes\n\n{changes}\n\n## Tried'
      '\n\n' + ''.join(f'- {trial}\n' for trial in trials),
      encoding='utf-8')
  digests = {path.name: sha256(path) for path in sorted(folder.iterdir())}
  (folder / 'SHA256SUMS').write_text(
      ''.join(f'{digest}  {name}\n' for name, digest in digests.items()),
      encoding='utf-8')
  if dist:
    _copy(folder, dist)
  return folder


def try_wheel(python: str, wheel: Path, training: Path = _TRAINING) -> str:
  """Installs a wheel in a new environment and trains with it.

  Returns:
    What was seen, or why it was not tried.

  Raises:
    BuildError: the wheel does not work.
  """
  name = f'python{python}'
  program = shutil.which(name)
  if not program:
    return f'not tried: there is no {name} on the PATH'
  environment = {
      k: v for k, v in os.environ.items() if not k.startswith(_OF_THE_USER)
  }
  with tempfile.TemporaryDirectory(prefix='release-') as folder:
    own = f'{folder}/bin/python'
    for command in (
        [program, '-m', 'venv', folder],
        [own, '-m', 'pip', 'install', '--quiet', _TORCH, f'{wheel}[cpu]'],
        [own, str(training)],
    ):
      done = subprocess.run(
          command,
          cwd=folder,
          env=environment,
          capture_output=True,
          text=True,
          check=False)
      lines = (done.stdout + done.stderr).strip().splitlines() or ['nothing']
      if done.returncode and command[-1] == str(training):
        raise BuildError(f'{wheel.name} does not work: {lines[-1]}')
      if done.returncode:
        return f'not tried: {lines[-1]}'
  return done.stdout.strip().splitlines()[-1]


def _check_releasable(root: Path, commit: str, heading: str) -> None:
  if not re.fullmatch(r'\(\d{4}-\d\d-\d\d\)', heading):
    raise BuildError(
        f'CHANGELOG.md gives {pins.VERSION} no date: put it there, '
        'as in (2026-01-31), and commit it')
  tagged = git.run(root, 'rev-parse', '--verify', '--quiet', f'{_TAG}^{{}}')
  if tagged.stdout.strip() not in ('', commit):
    raise BuildError(
        f'tag {_TAG} names another commit, {tagged.stdout.strip()}:'
        ' raise VERSION in infra/wheel/pins.py')


def _copy(folder: Path, dist: Path) -> None:
  """Copies files to `dist`; renames them only once all are there."""
  for file in folder.glob('*.whl'):
    target = dist / file.name
    if target.exists() and sha256(target) != sha256(file):
      raise BuildError(
          f'{target} is another wheel of the same version: remove it if it was '
          'never given to anybody, or else raise VERSION in '
          'infra/wheel/pins.py')
  dist.mkdir(parents=True, exist_ok=True)
  with tempfile.TemporaryDirectory(prefix='.release-', dir=dist) as part:
    shutil.copytree(folder, part, dirs_exist_ok=True)
    for file in Path(part).iterdir():
      os.replace(file, dist / file.name)


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
  """Runs the command line on the checkout `root`; returns the exit status."""
  parser = argparse.ArgumentParser(
      prog='python -m infra.release',
      description=__doc__,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument(
      '--write', action='store_true', help='copy the release to dist/')
  options = parser.parse_args(arguments)
  say = functools.partial(print, flush=True)
  try:
    folder = make_release(
        root, dist=root / 'dist' if options.write else None, say=say)
    say(f'torch_xla {pins.VERSION} in {folder}:')
    for path in sorted(folder.iterdir()):
      say(f'  {path.name}')
    if options.write:
      say(f'now tag it: git tag --annotate {_TAG} --message '
          f'"torch_xla {pins.VERSION}" {git.need(root, "rev-parse", "HEAD")}')
    else:
      say('dry run: dist/ is as it was; --write writes it')
  except (BuildError, OSError) as error:
    print(f'error: {error}', file=sys.stderr)
    return 1
  return 0


if __name__ == '__main__':
  sys.exit(main())
