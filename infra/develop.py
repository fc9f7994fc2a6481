"""Lays the checkout's Python on an installed wheel, as links.

An edit then takes effect without a build. What the wheel is made of besides,
patches and the plugins in C, stays as it was built.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping, Sequence
import csv
from pathlib import Path
import shutil
import sys
import sysconfig

ROOT = Path(__file__).resolve().parents[1]
if __name__ == '__main__':
  sys.path[0] = str(ROOT)

from infra.errors import BuildError
from infra.wheel import official, pins
from infra.wheel.build import running_python
from infra.wheel.overlay import check_clashes, wheel_files
from infra.wheel.pure_wheel import files_of, PureWheel
from infra.wheel.tools import TOOLS


def link(root: Path,
         site: Path,
         official_names: Collection[str],
         tools: Sequence[PureWheel] = TOOLS) -> int:
  """Links every overlay file of installed wheels to the checkout's.

  Files are linked, not folders, and the links stand in the wheel's RECORD: so
  pip takes all of them away, and never what they point to.

  Args:
    root: the checkout.
    site: where the wheels are installed: the folder that holds torch_xla.
    official_names: the files of the official wheel.
    tools: the wheels beside that of torch_xla.

  Returns:
    How many links were made, and files taken away.

  Raises:
    BuildError: a wheel of this project is not installed there, or a file of the
      checkout would take the place of an official one.
  """
  own = {name: root / name for name in wheel_files(root)}
  check_clashes(own, official_names)
  info = f'{pins.PACKAGE}-{pins.VERSION}.dist-info'
  changed = _link(site, info, own, {*official_names, *pins.PLUGINS},
                  pins.PACKAGES)
  for tool in tools:
    changed += _link(site, tool.info, files_of(root, tool), (), tool.packages)
  return changed


def _link(site: Path, info: str, own: Mapping[str, Path],
          others: Collection[str], packages: Collection[str]) -> int:
  """Links one wheel's files, `own`, and takes away what it no longer has.

  Args:
    info: the folder of its metadata.
    others: its files in `packages` that are not of the checkout.
    packages: those in which what is in neither is taken away.
  """
  record = site / info / 'RECORD'
  if not record.is_file():
    name, version = info.removesuffix('.dist-info').split('-')
    raise BuildError(f'{site} has no {name} {version}: build the wheel and '
                     'install it first (infra/develop.sh does)')
  rows = list(csv.reader(record.read_text(encoding='utf-8').splitlines()))
  installed = {row[0] for row in rows}
  gone = {
      name for name in installed - {*others, *own}
      if name.split('/')[0] in packages and '__pycache__' not in name
  }
  rows = [row for row in rows if row[0] not in gone]
  rows += [[name, '', ''] for name in own if name not in installed]
  with record.open('w', encoding='utf-8', newline='') as file:
    csv.writer(file, lineterminator='\n').writerows(rows)

  for path in (site / name for name in gone):
    path.unlink(missing_ok=True)
    folder = path.parent
    # A folder without modules could still be imported.
    while folder.is_dir() and all(
        p.name == '__pycache__' for p in folder.iterdir()):
      shutil.rmtree(folder)
      folder = folder.parent
  return len(gone) + link_all(site, own)


def link_all(site: Path, own: Mapping[str, Path]) -> int:
  """Makes links by their names in `site`; returns how many were not there."""
  changed = 0
  for name, target in own.items():
    path = site / name
    if path.is_symlink() and path.readlink() == target:
      continue
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)
    changed += 1
  return changed


def main() -> int:
  """Links the checkout's Python into the environment of this one."""
  argparse.ArgumentParser(
      prog='python infra/develop.py', description=__doc__).parse_args()
  try:
    wheel = official.official_wheel(running_python(),
                                    official.default_cache(ROOT),
                                    lambda line: None)
    with official.open_wheel(wheel) as archive:
      names = archive.namelist()
    changed = link(ROOT, Path(sysconfig.get_path('purelib')), names)
  except (BuildError, OSError) as error:
    print(f'error: {error}', file=sys.stderr)
    return 1
  print(f'torch_xla in {sys.prefix} runs the Python of {ROOT}; '
        f'changed: {changed} files')
  return 0


if __name__ == '__main__':
  sys.exit(main())
