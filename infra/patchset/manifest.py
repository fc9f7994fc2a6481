"""Reads patches/series.toml."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
import re

from infra.errors import BuildError
from infra.wheel import toml_values as values

FOLDER = 'patches'
FILE = f'{FOLDER}/series.toml'

# The form of a series for the official wheel. The other one is for people with
# the source, called after its base.
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
    base: the name of the base that the patches for the source are made for;
      they go on each later one, too. Empty if there are none.
    upstream: its patches for people with the source.
  """
  name: str
  description: str
  bug: str
  depends_on: tuple[str, ...] = ()
  wheel: tuple[str, ...] = ()
  base: str = ''
  upstream: tuple[str, ...] = ()

  def forms(self) -> dict[str, tuple[str, ...]]:
    """Patches by form: the wheel's, and those for the base."""
    return {
        WHEEL: self.wheel
    } | ({
        self.base: self.upstream
    } if self.base else {})

  def form_for(self, target: str) -> str:
    """The form of the patches that are laid on a base, or on any other tree.

    Raises:
      BuildError: there are no patches for people with the source.
    """
    if target == WHEEL:
      return WHEEL
    if not self.base:
      raise BuildError(f'series {self.name} has no patches for people with the '
                       'source. What the wheel gets of it comes with --wheel')
    return self.base


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
      parts = [series for series in self.series if series.base]
      return Series(
          ALL,
          'all series',
          '',
          depends_on=tuple(series.name for series in parts),
          base=max((s.base for s in parts), key=self._names().index))
    for series in self.series:
      if series.name == name:
        return series
    known = ', '.join(series.name for series in self.series)
    raise BuildError(f'there is no series {name}; there are: {known}')

  def bases_of(self, series: Series) -> list[str]:
    """The bases that the patches of a series go on, the oldest first."""
    names = self._names()
    return names[names.index(series.base):] if series.base else []

  def _names(self) -> list[str]:
    return [base.name for base in self.bases]

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
    table = values.table_of(text)
    values.check_keys(table, ('base', 'series'), ('series',))
    bases = tuple(map(_base, values.tables(table, 'base')))
    _differ(bases, 'bases')
    all_series: list[Series] = []
    for entry in values.tables(table, 'series'):
      series = _series(entry, [base.name for base in bases])
      earlier = {other.name for other in (*before, *all_series)}
      for dependency in series.depends_on:
        if dependency not in earlier:
          raise BuildError(f'{series.name} depends on {dependency}, '
                           'which is not a series listed before it')
      all_series.append(series)
    _differ([*before, *all_series], 'series')
  except BuildError as error:
    raise BuildError(f'{FILE}: {error}') from None
  return Manifest(bases, tuple(all_series))


def _base(entry: values.Table) -> Base:
  """Turns one table into a Base; see `load_manifest` for the errors."""
  values.check_keys(entry, ('name', 'commit', 'cherry_pick'),
                    ('name', 'commit'), 'base.')
  name, commit = values.text(entry, 'name'), values.text(entry, 'commit')
  picks = values.texts(entry, 'cherry_pick')
  if name == WHEEL:
    raise BuildError(f'no base can be called {name}')
  for commit_id in (commit, *picks):
    if not _COMMIT.fullmatch(commit_id):
      raise BuildError(f'{commit_id} of {name} is no full commit id')
  return Base(name, commit, picks)


def _series(entry: values.Table, bases: Sequence[str]) -> Series:
  """Turns one table into a Series; see `load_manifest` for the errors."""
  keys = [field.name for field in fields(Series)]
  where = f'{entry.get("name", "series")}.'
  values.check_keys(entry, keys, keys[:3], where)
  base = values.choice(entry, 'base', bases, '', where)
  if bool(base) != bool(entry.get(UPSTREAM)):
    raise BuildError(f'{where}base and {where}upstream go together')
  return Series(
      *(values.text(entry, key, where=where) for key in keys[:3]),
      depends_on=values.texts(entry, 'depends_on'),
      wheel=values.texts(entry, WHEEL),
      base=base,
      upstream=values.texts(entry, UPSTREAM))


def _differ(entries: Sequence[Base | Series], kind: str) -> None:
  """Raises BuildError if two entries have one name."""
  names = [entry.name for entry in entries]
  for name in names:
    if names.count(name) > 1:
      raise BuildError(f'two {kind} are called {name}')
