"""Reads patches/series.toml."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
import re
from typing import Any

from infra.errors import BuildError
from infra.wheel.toml_values import table_of

FOLDER = 'patches'
FILE = f'{FOLDER}/series.toml'

# The form of a series for the official wheel. The other forms are for people
# with the source, each called after its base.
WHEEL = 'wheel'
UPSTREAM = 'upstream'
# A series of none but what it depends on.
ALL = 'all'

_COMMIT = re.compile(r'[0-9a-f]{40}')


@dataclass(frozen=True)
class Base:
  """Sources of upstream that series are laid on.

  Attributes:
    commit: the id of a commit of upstream's.
    cherry_pick: the ids of upstream's commits that are picked on top of it.
  """
  name: str
  commit: str
  cherry_pick: tuple[str, ...]


@dataclass(frozen=True)
class Series:
  """One series of patches, as series.toml describes it.

  Attributes:
    wheel: its patches for the official wheel, as paths under patches/.
    upstream: for each base, its patches, or the base whose patches git merges
      there.
  """
  name: str
  description: str
  bug: str
  depends_on: tuple[str, ...]
  wheel: tuple[str, ...]
  upstream: Mapping[str, tuple[str, ...] | str]

  def forms(self) -> dict[str, tuple[str, ...]]:
    """Patches by form: the wheel's, and each base's with a list of its own."""
    return {
        WHEEL: self.wheel
    } | {
        base: patches
        for base, patches in self.upstream.items()
        if not isinstance(patches, str)
    }

  def home(self, target: str) -> str:
    """The form whose patches are laid on a base, or on any other tree.

    Raises:
      BuildError: there are no patches for people with the source.
    """
    if target == WHEEL or not isinstance(self.upstream.get(target, ''), str):
      return target
    if not self.upstream:
      raise BuildError(f'series {self.name} has no patches for people with the '
                       'source')
    return self.upstream.get(target) or [*self.forms()][-1]


@dataclass(frozen=True)
class Manifest:
  """The content of series.toml.

  Attributes:
    bases: all bases, the oldest first.
    series: all series, in order.
  """
  bases: tuple[Base, ...]
  series: tuple[Series, ...]

  def find(self, name: str) -> Series:
    """The series called `name`; ALL is all that there are for the source.

    Raises:
      BuildError: there is none.
    """
    if name == ALL:
      parts = [series for series in self.series if series.upstream]
      bases = (b.name for b in self.bases)
      forms = {b: () for b in bases if all(b in s.upstream for s in parts)}
      names = tuple(series.name for series in parts)
      return Series(ALL, 'all series', '', names, (), forms)
    for series in self.series:
      if series.name == name:
        return series
    known = ', '.join(series.name for series in self.series)
    raise BuildError(f'there is no series {name}; there are: {known}')

  def find_base(self, name: str) -> Base:
    """The base called `name`; BuildError if there is none."""
    for base in self.bases:
      if base.name == name:
        return base
    known = ', '.join(base.name for base in self.bases) or 'none'
    raise BuildError(f'there is no base {name}; there are: {known}')

  def with_dependencies(self, name: str) -> tuple[Series, ...]:
    """The series called `name` behind all that it depends on, in order.

    Raises:
      BuildError: there is no such series.
    """
    names = {name}
    todo = [name]
    while todo:
      for dependency in self.find(todo.pop()).depends_on:
        if dependency not in names:
          names.add(dependency)
          todo.append(dependency)
    return tuple(series for series in self.series if series.name in names)


def load_manifest(root: Path, before: Sequence[Series] = ()) -> Manifest:
  """Loads series.toml of the checkout at `root`.

  Args:
    root: the checkout.
    before: series of another checkout that these build on.

  Raises:
    BuildError: the file is missing or says something that cannot be.
  """
  path = root / FILE
  try:
    text = path.read_text(
        encoding='utf-8-sig')  # Some editors begin with a BOM.
  except FileNotFoundError:
    raise BuildError(f'{path} is missing') from None
  except (OSError, UnicodeDecodeError) as error:
    raise BuildError(f'{FILE}: {error}') from error
  return parse_manifest(text, before)


def parse_manifest(text: str, before: Sequence[Series] = ()) -> Manifest:
  """Parses the text of a series.toml; see `load_manifest`."""
  try:
    table = table_of(text)
  except BuildError as error:
    raise BuildError(f'{FILE}: {error}') from None
  if not set(table) <= {'base', 'series'} or not all(
      map(_are_tables, (table.get('series'), table.get('base', [])))):
    raise BuildError(f'{FILE} holds [[base]] and [[series]] tables and nothing '
                     'else')
  bases = tuple(map(_base, table.get('base', [])))
  _differ(bases, 'bases')
  all_series: list[Series] = []
  for entry in table['series']:
    series = _series(entry, bases)
    earlier = {other.name for other in (*before, *all_series)}
    for dependency in series.depends_on:
      if dependency not in earlier:
        raise BuildError(f'{FILE}: {series.name} depends on {dependency}, '
                         'which is not a series listed before it')
    all_series.append(series)
  _differ([*before, *all_series], 'series')
  return Manifest(bases, tuple(all_series))


def _are_tables(value: Any) -> bool:
  return isinstance(value, list) and all(isinstance(v, dict) for v in value)


def _base(entry: dict[str, Any]) -> Base:
  """Turns one table into a Base; see `load_manifest` for the errors."""
  entry = {'cherry_pick': []} | entry
  _check_keys(entry, Base)
  name = _text(entry['name'], 'name of a base')
  if name == WHEEL:
    raise BuildError(f'{FILE}: no base can be called {name}')
  picks = _texts(entry['cherry_pick'], f'cherry_pick of {name}')
  for commit in (entry['commit'], *picks):
    if not _COMMIT.fullmatch(str(commit)):
      raise BuildError(f'{FILE}: {commit} of {name} is no full commit id')
  return Base(name, entry['commit'], picks)


def _series(entry: dict[str, Any], bases: Iterable[Base]) -> Series:
  """Turns one table into a Series; see `load_manifest` for the errors."""
  entry = {'upstream': {}} | entry
  _check_keys(entry, Series)
  name = entry['name']
  values: dict[str, Any] = {}
  for field in fields(Series):
    value = entry[field.name]
    label = f'{field.name} of {name}'
    if field.type is str:
      values[field.name] = _text(value, label)
    elif field.name == UPSTREAM:
      values[field.name] = _upstream(value, label, [b.name for b in bases])
    else:
      values[field.name] = _texts(value, label)
  return Series(**values)


def _upstream(table: Any, label: str,
              bases: Sequence[str]) -> dict[str, tuple[str, ...] | str]:
  """The patches for each base, or the base whose patches are merged there."""
  if not isinstance(table, dict) or not table.keys() <= {*bases}:
    raise BuildError(f'{FILE}: {label} has to be a table with bases for keys')
  for name, value in table.items():
    if isinstance(value, str) and not isinstance(table.get(value), list):
      raise BuildError(f'{FILE}: {label} for {name} is as for {value}, which '
                       'has no list')
  return {
      name:
          value
          if isinstance(value, str) else _texts(value, f'{label} for {name}')
      for name, value in (
          (name, table[name]) for name in bases if name in table)
  }


def _check_keys(entry: dict[str, Any], kind: type) -> None:
  """Raises BuildError unless a table has the keys of a class."""
  wrong = {field.name for field in fields(kind)} ^ entry.keys()
  if wrong:
    raise BuildError(f'{FILE}: {entry.get("name", "(without a name)")} lacks, '
                     f'or should not have: {", ".join(sorted(wrong))}')


def _differ(entries: Sequence[Base | Series], kind: str) -> None:
  """Raises BuildError if two entries have one name."""
  names = [entry.name for entry in entries]
  for name in names:
    if names.count(name) > 1:
      raise BuildError(f'{FILE}: two {kind} are called {name}')


def _text(value: Any, label: str) -> str:
  """Raises BuildError unless a value is a text."""
  if not isinstance(value, str) or not value:
    raise BuildError(f'{FILE}: {label} has to be a text')
  return value


def _texts(value: Any, label: str) -> tuple[str, ...]:
  """Raises BuildError unless a value is a list of texts of one line."""
  if not isinstance(value, list) or not all(
      isinstance(v, str) and v.isprintable() for v in value):
    raise BuildError(f'{FILE}: {label} has to be a list of texts')
  return tuple(value)
