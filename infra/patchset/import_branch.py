"""Brings a branch that `export` made back: what was changed on it since."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from infra.errors import BuildError, Say
from infra.patchset import git
from infra.patchset.apply import patched_files
from infra.patchset.branch import (Branch, Content, content_of, files_of,
                                   find_branch, open_branch, read_side, Side)
from infra.patchset.export import BRANCH_PREFIX, record_of
from infra.patchset.lay import base_of, check_sources
from infra.patchset.manifest import FILE, load_manifest, Manifest, Series
from infra.patchset.patch import (blob_id, fields_of, file_of, load_patches,
                                  Patch, read_patch, write_patch)
from infra.patchset.placing import place
from infra.patchset.replay import Edit


def import_branch(root: Path,
                  upstream: Path,
                  name: str,
                  of: str | None = None,
                  say: Say = print) -> None:
  """Makes patches of a series' commits on a branch, and fetches its new files.

  What was not changed on the branch since the export stays as it is here. What
  was changed in both places is refused. Nothing is written until all is known
  to be right.

  Args:
    root: the checkout of this project.
    upstream: the user's checkout of upstream.
    name: the branch, on its base, or what `export` calls it after.
    of: the series to take, by default the one that `export` calls the branch
      after. It can be one that the branch's series depends on.
    say: is told what is changed.

  Raises:
    BuildError: the branch is not fit, or one of its commits is not.
  """
  manifest = load_manifest(root)
  if not upstream.is_dir() or git.run(upstream, 'rev-parse').returncode:
    raise BuildError(f'{upstream} is no git checkout')
  name = find_branch(upstream, name)
  series = manifest.find(of or _series_of(name))
  record = record_of(name, series.name)
  branch = open_branch(upstream, name, series.name)
  check_sources(upstream, base_of(manifest, branch.form))
  listed = load_patches(root, series, branch.form)
  loaded = {file_of(p.name): p for p in listed}
  edited = read_side(branch, branch.head, manifest, series)
  export = read_side(branch, record, manifest, series)
  _check_base(root, branch, edited)

  here = {file: content_of(patch) for file, patch in loaded.items()}
  before, there = export.contents(loaded), edited.contents(loaded)
  changed = _merge(f'the patch {series.name}/', {*before, *there}, before,
                   there, here)
  ours = tuple(loaded)
  orders = [{FILE: order} for order in (export.order, edited.order, ours)]
  order = _merge('', [FILE], *orders).get(FILE, ours)
  names = _changed_files(root, export, edited, manifest, series, say)
  files = _merge('', names, export.files, edited.files,
                 {path: _blob_here(root / path) for path in names})

  texts = _judge(root, branch, manifest, series, loaded, changed, order)
  edit = Edit(series, branch, order, texts, {
      file: c.id for file, c in edited.commits.items()
  })
  written = place(root, manifest, edit, say) if changed or order != ours else {}
  for path, blob in files.items():
    written[path] = blob and git.read(upstream, 'cat-file', 'blob', blob)
  for path, data in written.items():
    _write(root / path, data, path, say)
  for subject in edited.behind:
    say(f'not taken: the commit "{subject}", which stands behind those of a '
        f'later series; move it before them if it is of {series.name}')
  if not written:
    say(f'nothing of {series.name} was changed on {name} since the export')
  # What comes next on the branch is compared with what is here now.
  git.need(upstream, 'update-ref', record, branch.head)


def _series_of(branch: str) -> str:
  if not branch.startswith(BRANCH_PREFIX):
    raise BuildError(f'{branch} does not say which series it is of: name it '
                     'with --series')
  return branch.removeprefix(BRANCH_PREFIX)


def _merge(folder: str, names: Iterable[str], before: Mapping[str, Any],
           there: Mapping[str, Any], here: Mapping[str, Any]) -> dict[str, Any]:
  """What was changed there and not here, None for what is gone there.

  Raises:
    BuildError: something was changed in both places, and not alike.
  """
  changes = {}
  for name in sorted(names):
    old, new, ours = (side.get(name) for side in (before, there, here))
    if new in (old, ours):
      continue
    if ours != old:
      raise BuildError(
          f'{folder}{name} was changed here as well as on the branch since the '
          'export. Put it back as it was exported, import the branch, and make '
          'the change again')
    changes[name] = new
  return changes


def _blob_here(path: Path) -> str | None:
  return blob_id(path.read_bytes()) if path.is_file() else None


def _changed_files(root: Path, export: Side, edited: Side, manifest: Manifest,
                   series: Series, say: Say) -> list[str]:
  """The new files of a series, and test tools, that a branch changes.

  Raises:
    BuildError: one belongs to nobody.
  """
  own = []
  for path in sorted({*export.files, *edited.files}):
    if edited.files.get(path) in (export.files.get(path),
                                  _blob_here(root / path)):
      continue
    if path.startswith(('torch_xla/', 'torch_xla_shardy/')):
      owners = manifest.owners_of_overlay(path)
    else:
      owners = manifest.owners_of_test(path)
    if owners in ([series.name], ['test_base']):
      own.append(path)
    elif owners:
      say(f'not taken: {path}, which belongs to {" and ".join(owners)}')
    else:
      raise BuildError(f'{path} on the branch belongs to no series: list it as '
                       f'overlay or tests of one in {FILE}')
  return own


def _check_base(root: Path, branch: Branch, edited: Side) -> None:
  """Raises BuildError unless the earlier series on a branch are as here."""
  expected = files_of(branch.upstream, branch.base)
  official = expected.keys()
  for other in edited.earlier:
    for patch in load_patches(root, other, branch.form):
      expected |= {change.path: change.new for change in patch.changes}
  if any(edited.base.get(path) != expected[path] for path in official):
    names = ', '.join(other.name for other in edited.earlier)
    raise BuildError(
        f'{branch.name} changes other files before the first commit of the '
        f'series, or {names or "what it builds on"} otherwise than the patches '
        'here. Import those series first, with --series')


def _judge(root: Path, branch: Branch, manifest: Manifest, series: Series,
           loaded: Mapping[str, Patch], changed: Mapping[str, Content | None],
           order: tuple[str, ...]) -> dict[str, str | None]:
  """The texts of changed patches, None for one that goes, if in order.

  Raises:
    BuildError: a patch lacks something, or does not apply.
  """
  texts: dict[str, str | None] = {}
  after = dict(loaded)
  for name, content in changed.items():
    if content is None:
      texts[name] = None
      after.pop(name, None)
      continue
    missing = [f for f in fields_of(branch.form) if f not in content.fields]
    if missing:
      raise BuildError(
          f'the commit "{content.subject}" is no patch yet. Its message lacks '
          f'{", ".join(missing)}: write a line "Name: value" for each into its '
          'last paragraph')
    text = write_patch(content.subject, content.body, content.fields,
                       content.diff)
    after[name] = read_patch(text, name, branch.form)
    texts[name] = text
  chain = [
      patch for other in manifest.with_dependencies(series.name)[:-1]
      for patch in load_patches(root, other, branch.form)
  ]
  chain += [after[name] for name in order if name in after]
  official = files_of(branch.upstream, branch.base)
  patched_files(
      lambda path: git.read(branch.upstream, 'cat-file', 'blob', official[path])
      if path in official else None, chain)
  return texts


def _write(path: Path, data: bytes | None, name: str, say: Say) -> None:
  """Gives a file this content, or takes it away."""
  if data is None:
    path.unlink()
    say(f'removed {name}')
  elif not path.exists():
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    say(f'added {name}')
  elif path.read_bytes() != data:
    path.write_bytes(data)
    say(f'changed {name}')
