"""Makes wheels of Python alone, which lie beside that of torch_xla.

Such a wheel takes files from where the checkout has them, so that a module that
two distributions need is written once: in both it has its neighbours, and its
relative imports hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
import os
from pathlib import Path

from infra.errors import BuildError
from infra.wheel import archive, metadata, overlay, pins

_TAG = 'py3-none-any'


@dataclass(frozen=True)
class PureWheel:
  """A distribution of Python alone; its version is that of torch_xla's wheel.

  Attributes:
    name: as pip knows it.
    summary: a line.
    page: the page of docs/ that is its description.
    requires: what it depends on.
    extras: what it depends on besides, by the extra.
    entry_points: by their group and name.
    sources: what lies where in the wheel: a folder or file there, and that of
      the checkout which it is.
  """
  name: str
  summary: str
  page: str
  requires: tuple[str, ...]
  sources: Mapping[str, str]
  extras: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
  entry_points: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

  @property
  def file_part(self) -> str:
    """The name as files have it."""
    return self.name.replace('-', '_')

  @property
  def info(self) -> str:
    """The folder of the metadata in the wheel."""
    return f'{self.file_part}-{pins.VERSION}.dist-info'

  @property
  def wheel_name(self) -> str:
    """The file name of the wheel."""
    return f'{self.file_part}-{pins.VERSION}-{_TAG}.whl'

  @property
  def packages(self) -> tuple[str, ...]:
    """The packages in the wheel."""
    return tuple(sorted({name.split('/')[0] for name in self.sources}))


def files_of(root: Path, wheel: PureWheel) -> dict[str, Path]:
  """The files of a wheel but its metadata, by where they lie in it.

  Raises:
    BuildError: a source is missing, is a link, or two take one place.
  """
  files: dict[str, Path] = {}
  for place, source in wheel.sources.items():
    for name, path in _files_below(root, place, source):
      if name in files:
        raise BuildError(f'{wheel.name}: {source} and another source both give '
                         f'{name}')
      files[name] = path
  return files


def contents_of(root: Path, wheel: PureWheel) -> dict[str, bytes]:
  """Every file of a wheel of the checkout at `root`, in order, RECORD last.

  Raises:
    BuildError: as `files_of`.
  """
  contents = {n: p.read_bytes() for n, p in files_of(root, wheel).items()}
  contents |= {
      f'{wheel.info}/{name}': text.encode()
      for name, text in _metadata(root, wheel).items()
  }
  names = sorted(contents, key=lambda n: (n.startswith(wheel.info), n))
  record = f'{wheel.info}/RECORD'
  text = metadata.write_record(
      ((n, metadata.hash_field(contents[n]), len(contents[n])) for n in names),
      record)
  return {n: contents[n] for n in names} | {record: text.encode()}


def build_pure_wheel(root: Path, dist_dir: Path, wheel: PureWheel) -> Path:
  """Builds a wheel of the checkout at `root`; the same inputs, the same bytes.

  Raises:
    BuildError: as `files_of`, or SOURCE_DATE_EPOCH is no time.
  """
  contents = contents_of(root, wheel)
  target = dist_dir / wheel.wheel_name
  archive.write_whole(target,
                      [archive.pack(*file) for file in contents.items()],
                      archive.timestamp(dict(os.environ)))
  return target


def _files_below(root: Path, place: str,
                 source: str) -> Iterable[tuple[str, Path]]:
  path = root / source
  if path.is_file() and not path.is_symlink():
    return [(place, path)]
  names = overlay.without_bazel(overlay.files_beneath(root, source))
  if not names:
    raise BuildError(f'{source} is missing from the checkout {root}, or empty')
  return [(place + name.removeprefix(source), root / name) for name in names]


def _metadata(root: Path, wheel: PureWheel) -> dict[str, str]:
  """The files of the dist-info folder but RECORD."""
  files = {
      'METADATA': f'Metadata-Version: 2.4\nName: {wheel.name}\n'
                  f'Version: {pins.VERSION}\nSummary: {wheel.summary}\n'
                  'License-Expression: BSD-3-Clause\nLicense-File: LICENSE\n'
                  'Requires-Python: >=3.10\n' +
                  metadata.requirement_fields(wheel.requires, wheel.extras) +
                  'Description-Content-Type: text/markdown\n\n' +
                  (root / wheel.page).read_text(encoding='utf-8'),
      'WHEEL': f'Wheel-Version: 1.0\nGenerator: {pins.GENERATOR}\n'
               f'Root-Is-Purelib: true\nTag: {_TAG}\n',
      'licenses/LICENSE': (root / 'LICENSE').read_text(encoding='utf-8'),
      'top_level.txt': ''.join(f'{package}\n' for package in wheel.packages),
  }
  if wheel.entry_points:
    files['entry_points.txt'] = '\n'.join(
        f'[{group}]\n{metadata.entry_points(entries)}'
        for group, entries in wheel.entry_points.items())
  return files
