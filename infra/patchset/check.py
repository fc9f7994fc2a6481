"""Finds everything that is wrong with the series of a checkout."""

from pathlib import Path

from infra.errors import BuildError
from infra.patchset.apply import patched_files
from infra.patchset.apply import Reader
from infra.patchset.manifest import claimed_by
from infra.patchset.manifest import FILE
from infra.patchset.manifest import FOLDER
from infra.patchset.manifest import load_manifest
from infra.patchset.manifest import matches
from infra.patchset.manifest import Series
from infra.patchset.manifest import with_dependencies
from infra.patchset.patch import load_patch
from infra.patchset.patch import Patch
from infra.wheel.overlay import own_files
from infra.wheel.overlay import test_files


def check(root: Path, read: Reader) -> list[str]:
  """Checks the series of the checkout at `root`.

  Args:
    root: the checkout.
    read: gives the official wheel's files.

  Returns:
    The problems, as texts.
  """
  try:
    all_series = load_manifest(root)
    problems = _check_files(root, all_series)
  except BuildError as error:
    return [str(error)]
  patches: dict[str, list[Patch]] = {}
  for series in all_series:
    patches[series.name] = []
    for name in series.patches:
      try:
        file = root / FOLDER / series.name / name
        patches[series.name].append(load_patch(file, series.name))
      except BuildError as error:
        problems.append(str(error))
  # A patch that cannot be read would only make those behind it fail too.
  if sum(map(len, patches.values())) == sum(len(s.patches) for s in all_series):
    problems += _check_application(all_series, patches, read)
  return problems


def _check_application(all_series: list[Series], patches: dict[str,
                                                               list[Patch]],
                       read: Reader) -> list[str]:
  """Applies each series with what it depends on, and all together."""
  rounds = [(f'series {series.name} alone',
             with_dependencies(all_series, series.name))
            for series in all_series]
  rounds.append(('all series together', all_series))
  problems = []
  for name, chosen in rounds:
    try:
      patched_files(read, [p for s in chosen for p in patches[s.name]])
    except BuildError as error:
      problems.append(f'{name}: {error}')
  return problems


def _check_files(root: Path, all_series: list[Series]) -> list[str]:
  """Compares what series.toml lists with the files that there are."""
  problems = []
  listed = {f'{s.name}/{name}' for s in all_series for name in s.patches}
  for series in all_series:
    if len(set(series.patches)) != len(series.patches):
      problems.append(f'{FILE}: {series.name} lists a patch twice')
  found = {
      path.relative_to(root / FOLDER).as_posix()
      for path in (root / FOLDER).rglob('*.patch')
  }
  problems += [
      f'{FOLDER}/{name} is not listed in {FILE}' for name in sorted(found -
                                                                    listed)
  ]
  own = own_files(root)
  tests = test_files(root)
  for series in all_series:
    for kind, patterns, files in (('overlay file', series.overlay, own),
                                  ('test', series.tests, tests)):
      problems += [
          f'{FILE}: {series.name} lists the {kind} {pattern}, and there is none'
          for pattern in patterns
          if not any(matches(pattern, path) for path in files)
      ]
  for path in own:
    claims = claimed_by(all_series, path)
    if len(claims) != 1:
      whose = f'to {" and ".join(claims)}' if claims else 'to no series'
      problems.append(f'{path} belongs {whose}; {FILE} has to give it to one')
  return problems
