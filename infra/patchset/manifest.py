"""Reads patches/series.toml."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
import re

from infra.errors import BuildError, within
from infra.wheel import toml_values

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
  cherry_pick: tuple[str, ...] = ()


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
    own = {self.base: self.upstream} if self.base else {}
    return {WHEEL: self.wheel} | own

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


@dataclass(frozen=True, kw_only=True)
class Manifest:
  """The content of series.toml.

  Attributes:
    bases: all bases, the oldest first.
    series: all series, in order.
  """
  bases: tuple[Base, ...] = field(default=(), metadata={'key': 'base'})
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
    names = {name, *self.find(name).depends_on}
    for series in reversed(self.series):
      if series.name in names:
        names |= {*series.depends_on}
    return tuple(series for series in self.series if series.name in names)


def load_manifest(root: Path, before: Sequence[Series] = ()) -> Manifest:
  """Loads series.toml of the checkout at `root`.

  Args:
    root: the checkout.
    before: series of another checkout that these build on.

  Raises:
    BuildError: the file is missing or says something that cannot be.
  """
  with within(FILE):
    manifest = toml_values.load(Manifest, root / FILE)
    for base in manifest.bases:
      if base.name == WHEEL:
        raise BuildError(f'no base can be called {base.name}')
      for commit in (base.commit, *base.cherry_pick):
        if not _COMMIT.fullmatch(commit):
          raise BuildError(f'{commit} of {base.name} is no full commit id')
    bases = [base.name for base in manifest.bases]
    earlier = [series.name for series in before]
    for series in manifest.series:
      name = series.name
      if series.base and series.base not in bases:
        raise BuildError(f'{name}.base: {series.base!r} is not one of '
                         f'{", ".join(bases)}')
      if bool(series.base) != bool(series.upstream):
        raise BuildError(f'{name}.base and {name}.upstream go together')
      for dependency in series.depends_on:
        if dependency not in earlier:
          raise BuildError(f'{name} depends on {dependency}, which is not a '
                           'series listed before it')
      earlier.append(name)
    for kind, names in (('bases', bases), ('series', earlier)):
      for name in names:
        if names.count(name) > 1:
          raise BuildError(f'two {kind} are called {name}')
  return manifest
