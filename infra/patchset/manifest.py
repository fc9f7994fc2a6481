"""Reads patches/series.toml."""

from dataclasses import dataclass
from dataclasses import fields
import fnmatch
from pathlib import Path
import tomllib
from typing import Any

from infra.errors import BuildError

FOLDER = 'patches'
FILE = f'{FOLDER}/series.toml'


@dataclass(frozen=True)
class Series:
  """One series of patches, as series.toml describes it."""
  name: str
  description: str
  bug: str
  depends_on: tuple[str, ...]
  patches: tuple[str, ...]
  overlay: tuple[str, ...]
  tests: tuple[str, ...]


def load_manifest(root: Path) -> list[Series]:
  """All series of the checkout at `root`, in order.

  Raises:
    BuildError: the file is missing or says something that cannot be.
  """
  path = root / FILE
  try:
    table = tomllib.loads(path.read_text(encoding='utf-8'))
  except FileNotFoundError:
    raise BuildError(f'{path} is missing') from None
  except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
    raise BuildError(f'{FILE}: {error}') from error
  if set(table) != {'series'} or not isinstance(table['series'], list):
    raise BuildError(f'{FILE} holds [[series]] tables and nothing else')
  all_series: list[Series] = []
  for entry in table['series']:
    series = _series(entry)
    earlier = {other.name for other in all_series}
    if series.name in earlier:
      raise BuildError(f'{FILE}: two series are called {series.name}')
    for dependency in series.depends_on:
      if dependency not in earlier:
        raise BuildError(f'{FILE}: {series.name} depends on {dependency}, '
                         'which is not a series listed before it')
    all_series.append(series)
  return all_series


def find_series(all_series: list[Series], name: str) -> Series:
  """The series called `name`.

  Raises:
    BuildError: there is none.
  """
  for series in all_series:
    if series.name == name:
      return series
  known = ', '.join(series.name for series in all_series)
  raise BuildError(f'there is no series {name}; there are: {known}')


def with_dependencies(all_series: list[Series], name: str) -> list[Series]:
  """The series called `name` behind all that it depends on, in order.

  Raises:
    BuildError: there is no such series.
  """
  wanted = {name}
  todo = [name]
  while todo:
    for dependency in find_series(all_series, todo.pop()).depends_on:
      if dependency not in wanted:
        wanted.add(dependency)
        todo.append(dependency)
  return [series for series in all_series if series.name in wanted]


def matches(pattern: str, path: str) -> bool:
  """Whether a path is, or lies beneath, what an entry of series.toml names."""
  if pattern.endswith('/**'):
    return path.startswith(pattern[:-2])
  return (pattern.count('/') == path.count('/') and
          fnmatch.fnmatchcase(path, pattern))


def claimed_by(all_series: list[Series], path: str) -> list[str]:
  """The names of the series whose overlay a file belongs to."""
  literal = [s.name for s in all_series if path in s.overlay]
  return literal or [
      s.name for s in all_series if any(
          matches(pattern, path) for pattern in s.overlay)
  ]


def _series(entry: dict[str, Any]) -> Series:
  """Turns one table into a Series; see `load_manifest` for the errors."""
  name = entry.get('name', '(without a name)')
  kinds = {field.name: field.type for field in fields(Series)}
  if set(entry) != set(kinds):
    wrong = ', '.join(sorted(set(entry) ^ set(kinds)))
    raise BuildError(f'{FILE}: {name} lacks, or should not have: {wrong}')
  values: dict[str, Any] = {}
  for key, kind in kinds.items():
    value = entry[key]
    if kind is str and isinstance(value, str) and value:
      values[key] = value
    elif kind is not str and isinstance(value, list) and all(
        isinstance(item, str) for item in value):
      values[key] = tuple(value)
    else:
      wanted = 'a text' if kind is str else 'a list of texts'
      raise BuildError(f'{FILE}: {key} of {name} has to be {wanted}')
  return Series(**values)
