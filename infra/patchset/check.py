"""Finds everything that is wrong with the series of a checkout."""

from pathlib import Path

from infra.errors import BuildError
from infra.patchset.apply import patched_files, Reader
from infra.patchset.manifest import (FILE, FOLDER, load_manifest, Manifest,
                                     UPSTREAM, WHEEL)
from infra.patchset.patch import load_patch, Patch

# The patches of each series in each of its forms.
_Loaded = dict[tuple[str, str], list[Patch]]


def check(root: Path, read: Reader) -> list[str]:
  """Checks the series of the checkout at `root`.

  Args:
    root: the checkout.
    read: gives the official wheel's files.

  Returns:
    The problems, as texts.
  """
  try:
    manifest = load_manifest(root)
  except BuildError as error:
    return [str(error)]
  problems: list[str] = []
  unread: dict[str, None] = {}
  patches: _Loaded = {}
  listed: set[str] = set()
  for series in manifest.series:
    for form, names in series.forms().items():
      listed |= {*names}
      known = [f'{UPSTREAM}/{series.name}']
      if form == WHEEL:
        known.append(f'{WHEEL}/{series.name}')
      patches[series.name, form] = laid = []
      for name in names:
        if name.rpartition('/')[0] not in known:
          problems.append(f'{FILE}: {series.name} lists {name} for {form}; it '
                          f'has to lie in {" or ".join(known)}')
        try:
          patch = load_patch(root, name, form)
          laid.append(patch.wheel_part() if form == WHEEL else patch)
        except BuildError as error:
          unread[str(error)] = None
  folder = root / FOLDER
  there = {p.relative_to(folder).as_posix() for p in folder.rglob('*.patch')}
  problems += [
      f'{FOLDER}/{name} is not listed in {FILE}' for name in sorted(there -
                                                                    listed)
  ]
  # A patch that cannot be read would only make those behind it fail too.
  if unread:
    return problems + [*unread]
  problems += _check_application(manifest, patches, read)
  return problems + _check_chains(manifest, patches)


def _check_application(manifest: Manifest, patches: _Loaded,
                       read: Reader) -> list[str]:
  """Applies each series with what it depends on, and all together."""
  rounds = {
      f'series {series.name} alone': manifest.with_dependencies(series.name)
      for series in manifest.series
  }
  problems = []
  for name, chosen in (rounds | {
      'all series together': manifest.series
  }).items():
    try:
      patched_files(read, [p for s in chosen for p in patches[s.name, WHEEL]])
    except BuildError as error:
      problems.append(f'{name}: {error}')
  return problems


def _check_chains(manifest: Manifest, patches: _Loaded) -> list[str]:
  """Compares blob ids along the patches of each series for the source.

  That each begins at the base's own blob is for `check --upstream` to see: it
  takes upstream's sources.
  """
  problems = []
  for series in manifest.series:
    results: dict[str, tuple[str, str]] = {}
    for part in manifest.with_dependencies(series.name) if series.base else ():
      if series.base not in manifest.bases_of(part):
        problems.append(f'{FILE}: {series.name} depends on {part.name}, which '
                        f'has no patches for {series.base}')
      for patch in patches.get((part.name, part.base), ()):
        for change in patch.changes:
          blob, by = results.get(change.path, (change.old, ''))
          if blob != change.old:
            problems.append(
                f'series {series.name} on {series.base}: patch {patch.name} '
                f'applies to blob {change.old} of {change.path}, and {by} '
                f'before it makes {blob}')
          results[change.path] = (change.new, patch.name)
  return problems
