"""Decides in which files the patches of a series lie, and writes its lists.

What is the same in several forms lies once.
"""

from collections.abc import Mapping, Sequence
import dataclasses
from pathlib import Path

from infra.errors import BuildError, Say
from infra.patchset.export import record_of
from infra.patchset.lay import has_commit
from infra.patchset.manifest import (FILE, FOLDER, Manifest, Series, UPSTREAM,
                                     WHEEL, with_patches)
from infra.patchset.patch import (diff_in, file_of, placeless, shared_text,
                                  text_for)
from infra.patchset.replay import dependents, Edit, NotClean, replay, Texts


def folders(series: str, forms: Sequence[str]) -> list[str]:
  """The folders in which a patch can lie that just these forms list."""
  shared = f'{UPSTREAM}/{series}'
  own = [f'{shared}/{form}' for form in forms if form != WHEEL]
  return [shared, *own] if own else [f'{WHEEL}/{series}', shared]


def place(root: Path, manifest: Manifest, edit: Edit,
          say: Say) -> dict[str, bytes | None]:
  """The files to write for a change of one form, None for one that goes.

  Forms that share what was changed follow, as far as the change can be carried
  over to their bases; the others keep what they have.

  Args:
    root: the checkout of this project.
    manifest: its series.
    edit: the change.
    say: is told of other forms.

  Raises:
    BuildError: a patch would be written over a file that no series lists.
  """
  series, form = edit.series, edit.branch.form
  now = _texts_here(root, manifest)
  own = now[series.name, form]
  new: Texts = now | {
      (series.name, form): {
          file: edit.texts.get(file) or own[file] for file in edit.order
      }
  }
  for other in series.forms():
    edit_there = edit
    later = dependents(manifest, series, other)
    if other == form:
      # Those on the branch come with an import of their own.
      later = [
          s for s in later if not has_commit(
              edit.branch.upstream, record_of(edit.branch.name, s.name))
      ]
      file_names: Sequence[str] = edit.order if later else ()
    else:
      file_names = _wanted(edit, other)
      apart = _apart(edit, other)
      if apart:
        say(f'{other} has patches of its own, which stay: {", ".join(apart)}')
        edit_there = dataclasses.replace(
            edit,
            texts={
                file: text
                for file, text in edit.texts.items()
                if file not in map(file_of, apart)
            })
    if not file_names:
      continue
    if _same_diffs(edit_there, own):
      new[series.name, other] = {
          file: edit_there.texts.get(file) or now[series.name, other][file]
          for file in file_names
      }
      continue
    try:
      replayed = replay(root, manifest, now, edit_there, other, file_names,
                        later)
    except NotClean as error:
      if other == form:
        names = ', '.join(s.name for s in later)
        say(f'{names} on {other} does not follow: {error}. Put the patches '
            f'back, export {later[-1].name}, and make the change there')
      else:
        last = (later or [series])[-1].name
        say(f'{other} keeps its patches: {error}. To change them as well, '
            f'export {last} {_option(other)} and import the branch')
      continue
    if other != form:
      changed = sorted(f'{of}: {file}' for (of, _), files in replayed.items()
                       for file, text in files.items()
                       if now[of, other].get(file) != text)
      if changed:
        say(f'made for {other} as well: {", ".join(changed)}')
    new |= replayed
  return _files(root, manifest, new, form)


def _apart(edit: Edit, form: str) -> list[str]:
  """What was changed and is another file in another form."""
  here = edit.series.patches(edit.branch.form)
  there = {file_of(path): path for path in edit.series.patches(form)}
  return [
      there[file_of(path)]
      for path in here
      if file_of(path) in edit.texts and there.get(file_of(path), path) != path
  ]


def _same_diffs(edit: Edit, own: Mapping[str, str]) -> bool:
  """Whether nothing but words about patches was changed."""
  return edit.order == tuple(own) and all(
      text and file in own and diff_in(text) == diff_in(own[file])
      for file, text in edit.texts.items())


def _option(form: str) -> str:
  """How `export` is asked for a form."""
  return '--wheel' if form == WHEEL else f'--base {form}'


def _wanted(edit: Edit, form: str) -> Sequence[str]:
  """The patches that another form shall have, or none if it does not follow."""
  series = edit.series
  here, there = series.patches(edit.branch.form), series.patches(form)
  if here == there:
    return edit.order
  shared = {file_of(p) for p in here if p in there}
  if not any(edit.texts.get(file) for file in shared):
    return ()
  return [file_of(path) for path in there]


def _texts_here(root: Path, manifest: Manifest) -> Texts:
  """The patches as they are."""
  return {
      (series.name, form): {
          file_of(path):
              text_for((root / FOLDER / path).read_bytes().decode(), form)
          for path in paths
      } for series in manifest.series for form, paths in series.forms().items()
  }


def _files(root: Path, manifest: Manifest, new: Texts,
           first: str) -> dict[str, bytes | None]:
  """The files that differ once all forms have these patches."""
  written: dict[str, bytes | None] = {}
  toml = (root / FILE).read_text(encoding='utf-8')
  for series in manifest.series:
    where, lists = _paths(series, new, first), {}
    texts: dict[str, dict[str, str]] = {}
    for form in series.forms():
      lists[form] = [where[form, file] for file in new[series.name, form]]
      for file, text in new[series.name, form].items():
        texts.setdefault(where[form, file], {})[form] = text
    written |= {
        f'{FOLDER}/{path}': shared_text(of).encode()
        for path, of in texts.items()
    }
    toml = with_patches(toml, series.name, lists)
  listed = _listed(manifest)
  for path in written:
    if path not in listed and (root / path).exists():
      raise BuildError(f'{path} is there and not listed in {FILE}: list it, or '
                       'take it away')
  written |= {path: None for path in listed if path not in written}
  written[FILE] = toml.encode()
  return {
      path: data
      for path, data in sorted(written.items())
      if data is None or not (root / path).is_file() or
      (root / path).read_bytes() != data
  }


def _listed(manifest: Manifest) -> set[str]:
  """All patch files that are listed."""
  return {
      f'{FOLDER}/{path}' for series in manifest.series
      for paths in series.forms().values() for path in paths
  }


def _paths(series: Series, new: Texts,
           first: str) -> dict[tuple[str, str], str]:
  """The paths of a series' patches, by form and file name."""
  forms = sorted(series.forms(), key=lambda form: form != first)
  now = {
      (form, file_of(path)): path for form in forms
      for path in series.patches(form)
  }
  where = {}
  for file in {file for form in forms for file in new[series.name, form]}:
    texts: dict[str, list[str]] = {}
    for form in forms:
      if file in new[series.name, form]:
        text = placeless(new[series.name, form][file])
        texts.setdefault(text, []).append(form)
    taken: set[str] = set()
    # What most forms share stays where it is.
    for group in sorted(texts.values(), key=len, reverse=True):
      path = _path(series.name, file, group, now, taken)
      taken.add(path)
      where |= {(form, file): path for form in group}
  return where


def _path(series: str, file: str, group: Sequence[str],
          now: Mapping[tuple[str, str], str], paths_in_use: set[str]) -> str:
  """The path of a patch that these forms share."""
  possible = [f'{folder}/{file}' for folder in folders(series, group)]
  paths_now = {now[form, file] for form in group if (form, file) in now}
  paths_of_others = {
      path for (form, name), path in now.items()
      if name == file and form not in group
  }
  for path in possible:
    if path in paths_now and path not in paths_in_use:
      return path
  return next(p for p in possible if p not in paths_in_use | paths_of_others)
