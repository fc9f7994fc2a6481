"""Finds everything that is wrong with the series of a checkout."""

from pathlib import Path

from infra.errors import BuildError
from infra.patchset.apply import patched_files
from infra.patchset.apply import Reader
from infra.patchset.manifest import FILE
from infra.patchset.manifest import FOLDER
from infra.patchset.manifest import load_manifest
from infra.patchset.manifest import Manifest
from infra.patchset.manifest import matches
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
    manifest = load_manifest(root)
    problems = _check_files(root, manifest)
  except BuildError as error:
    return [str(error)]
  patches: dict[str, list[Patch]] = {}
  for series in manifest.series:
    patches[series.name] = []
    for name in series.patches:
      try:
        file = root / FOLDER / series.name / name
        patches[series.name].append(load_patch(file, series.name))
      except BuildError as error:
        problems.append(str(error))
  # A patch that cannot be read would only make those behind it fail too.
  if sum(map(len,
             patches.values())) == sum(len(s.patches) for s in manifest.series):
    problems += _check_application(manifest, patches, read)
  return problems


def _check_application(manifest: Manifest, patches: dict[str, list[Patch]],
                       read: Reader) -> list[str]:
  """Applies each series with what it depends on, and all together."""
  rounds = [(f'series {series.name} alone',
             manifest.with_dependencies(series.name))
            for series in manifest.series]
  rounds.append(('all series together', manifest.series))
  problems = []
  for name, chosen in rounds:
    try:
      patched_files(read, [p for s in chosen for p in patches[s.name]])
    except BuildError as error:
      problems.append(f'{name}: {error}')
  return problems


def _check_files(root: Path, manifest: Manifest) -> list[str]:
  """Compares what series.toml lists with the files that there are."""
  problems = []
  listed = {f'{s.name}/{name}' for s in manifest.series for name in s.patches}
  for series in manifest.series:
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
  lists = [(s.name, 'overlay file', s.overlay, own) for s in manifest.series]
  lists += [(s.name, 'test', s.tests, tests) for s in manifest.series]
  lists += [('test_base', 'file', manifest.test_base, tests),
            ('project_tests', 'test', manifest.project_tests, tests)]
  for owner, kind, patterns, files in lists:
    problems += [
        f'{FILE}: {owner} lists the {kind} {pattern}, and there is none'
        for pattern in patterns
        if not any(matches(pattern, path) for path in files)
    ]
  for path in own:
    problems += _check_owner(path, manifest.owners_of_overlay(path))
  for path in tests:
    problems += _check_owner(path, manifest.owners_of_test(path))
  return problems


def _check_owner(path: str, owners: list[str]) -> list[str]:
  """Every file belongs to one series, or is the base's or the project's."""
  if len(owners) == 1:
    return []
  whose = f'to {" and ".join(owners)}' if owners else 'to no series'
  return [f'{path} belongs {whose}; {FILE} has to give it to one']
