"""Reads patches/series.toml."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import fields
import fnmatch
from pathlib import Path
import re
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


@dataclass(frozen=True)
class Manifest:
  """What series.toml says.

  Attributes:
    test_base: the test tools that every series carries.
    project_tests: tests of the project itself, which no series carries.
    series: all series, in order.
  """
  test_base: tuple[str, ...]
  project_tests: tuple[str, ...]
  series: tuple[Series, ...]

  def find(self, name: str) -> Series:
    """The series called `name`.

    Raises:
      BuildError: there is none.
    """
    for series in self.series:
      if series.name == name:
        return series
    known = ', '.join(series.name for series in self.series)
    raise BuildError(f'there is no series {name}; there are: {known}')

  def with_dependencies(self, name: str) -> tuple[Series, ...]:
    """The series called `name` behind all that it depends on, in order.

    Raises:
      BuildError: there is no such series.
    """
    wanted = {name}
    todo = [name]
    while todo:
      for dependency in self.find(todo.pop()).depends_on:
        if dependency not in wanted:
          wanted.add(dependency)
          todo.append(dependency)
    return tuple(series for series in self.series if series.name in wanted)

  def owners_of_overlay(self, path: str) -> list[str]:
    """The series that list a file under torch_xla/."""
    return _owners({s.name: s.overlay for s in self.series}, path)

  def owners_of_test(self, path: str) -> list[str]:
    """The series, or else lists, that a file under test/ stands in."""
    lists = {'test_base': self.test_base, 'project_tests': self.project_tests}
    return _owners(lists | {s.name: s.tests for s in self.series}, path)


def load_manifest(root: Path) -> Manifest:
  """What series.toml of the checkout at `root` says.

  Raises:
    BuildError: the file is missing or says something that cannot be.
  """
  path = root / FILE
  try:
    text = path.read_text(encoding='utf-8')
  except FileNotFoundError:
    raise BuildError(f'{path} is missing') from None
  except UnicodeDecodeError as error:
    raise BuildError(f'{FILE}: {error}') from error
  return parse_manifest(text)


def parse_manifest(text: str) -> Manifest:
  """What a series.toml of this text says; errors as `load_manifest`."""
  try:
    table = tomllib.loads(text)
  except tomllib.TOMLDecodeError as error:
    raise BuildError(f'{FILE}: {error}') from error
  keys = {'test_base', 'project_tests', 'series'}
  if not set(table) <= keys or not isinstance(table.get('series'), list):
    raise BuildError(f'{FILE} holds [[series]] tables, test_base, '
                     'project_tests and nothing else')
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
  return Manifest(
      _texts(table.get('test_base', []), 'test_base'),
      _texts(table.get('project_tests', []), 'project_tests'),
      tuple(all_series))


def with_patches(text: str, name: str, patches: Sequence[str]) -> str:
  """The text of a series.toml with other patches for the series `name`.

  Raises:
    BuildError: the text is not laid out as this function expects.
  """
  entry = re.compile(
      rf"""(^name\ =\ ["']{re.escape(name)}["']$(?:(?!^\[\[).)*?^patches\ =\ )
      \[[^]]*\]$""", re.MULTILINE | re.DOTALL | re.VERBOSE)
  lines = ''.join(f'    "{patch}",\n' for patch in patches)
  new = entry.sub(lambda m: f'{m[1]}[\n{lines}]'
                  if lines else f'{m[1]}[]', text)
  if parse_manifest(new).find(name).patches != tuple(patches):
    raise BuildError(f'{FILE}: the patches of {name} have to be a list that '
                     'begins a line, behind the name')
  return new


def matches(pattern: str, path: str) -> bool:
  """Whether a path is, or lies beneath, what an entry of series.toml names."""
  if pattern.endswith('/**'):
    return path.startswith(pattern[:-2])
  return (pattern.count('/') == path.count('/') and
          fnmatch.fnmatchcase(path, pattern))


def _owners(patterns: Mapping[str, Sequence[str]], path: str) -> list[str]:
  """Whose patterns name a path: in full, or else with wildcards."""
  literal = [owner for owner, of_owner in patterns.items() if path in of_owner]
  return literal or [
      owner for owner, of_owner in patterns.items() if any(
          matches(pattern, path) for pattern in of_owner)
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
    what = f'{key} of {name}'
    if kind is not str:
      values[key] = _texts(value, what)
    elif isinstance(value, str) and value:
      values[key] = value
    else:
      raise BuildError(f'{FILE}: {what} has to be a text')
  return Series(**values)


def _texts(value: Any, what: str) -> tuple[str, ...]:
  """Raises BuildError unless a value is a list of texts."""
  if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
    raise BuildError(f'{FILE}: {what} has to be a list of texts')
  return tuple(value)
