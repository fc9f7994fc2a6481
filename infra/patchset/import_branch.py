"""Makes patches of a branch that `export` made and somebody edited.

series.toml has the order of the patches, so a new patch is listed there first.
"""

from pathlib import Path
import re

from infra.errors import BuildError, Say
from infra.patchset import git
from infra.patchset.export import BRANCH_PREFIX
from infra.patchset.worktree import Worktree, has_commit, work_tree
from infra.patchset.manifest import FILE, FOLDER, load_manifest, Manifest, WHEEL
from infra.patchset.patch import (fields_of, load_patch, Patch, read_fields,
                                  read_patch, slug, write_patch)

_DIFF = ('diff-tree', '-p', '-U0', '--full-index', '--no-renames',
         '--no-commit-id', '--no-color', '--no-ext-diff', '--no-textconv')


def import_branch(root: Path,
                  upstream: Path,
                  branch: str,
                  say: Say = print) -> None:
  """Writes the patches of a branch's commits, and all that build on them.

  A commit is the patch that is named after its subject. Patches that come later
  and those of other forms are merged by git. Nothing is written unless all of
  them merge.

  Args:
    root: the checkout of this project.
    upstream: the user's checkout of upstream.
    branch: as `export` named it, or the series that it is named after.
    say: is called with each changed file.

  Raises:
    BuildError: the branch is not fit, a commit is no patch, or a patch that
      builds on it conflicts.
  """
  manifest = load_manifest(root)
  if not has_commit(upstream, f'refs/heads/{branch}'):
    branch = f'{BRANCH_PREFIX}{branch}'
  edited = _edited(root, upstream, branch, manifest)
  texts = {name: '' for name, patch in edited.items() if not patch}
  with work_tree(upstream) as tree:
    worktree = Worktree(root, manifest, tree, edited)
    for series, form in ((s, f) for s in manifest.series for f in s.forms()):
      chain = manifest.with_dependencies(series.name)
      if edited.keys().isdisjoint(
          name for s in chain for name in s.forms()[s.form_for(form)]):
        continue
      for laid in worktree.lay(chain, form).patches:
        if laid.conflict:
          raise BuildError(
              f'{laid.patch.name} conflicts with the change on {form}. Export '
              f'{laid.series} (--wheel or --base {form}), make the change '
              f'there, and import that branch:\n{laid.conflict}')
        if laid.series != series.name:
          continue
        text = _text(tree, laid.patch, laid.commit, form)
        if texts.setdefault(laid.patch.name, text) != text:
          raise BuildError(
              f'{laid.patch.name} is one patch for the wheel and the source, '
              f'and would differ on {form}: list another patch there')
  _write(root, texts, say)


def _edited(root: Path, upstream: Path, branch: str,
            manifest: Manifest) -> dict[str, Patch | None]:
  """The patches of a branch; None for those that it has no more."""
  name, target, start = (
      git.run(upstream, 'config',
              f'branch.{branch}.series-{key}').stdout.strip()
      for key in ('name', 'target', 'start'))
  if not start or not has_commit(upstream, f'refs/heads/{branch}'):
    raise BuildError(f'{upstream} has no branch {branch} that export made: '
                     'export the series, and bring your commits to that branch')
  if git.need(upstream, 'rev-list', '--merges', f'{start}..{branch}'):
    raise BuildError(f'{branch} has a merge, which is no patch: rebase it')
  names = {
      Path(path).name: (path, series.form_for(target))
      for series in manifest.with_dependencies(name)
      for path in series.forms()[series.form_for(target)]
  }
  edited: dict[str, Patch | None] = {path: None for path, _ in names.values()}
  commits = git.need(upstream, 'rev-list', '--reverse', f'{start}..{branch}')
  order = []
  for commit in commits.split():
    message = git.need(upstream, 'log', '-1', '--format=%B', commit)
    file = f'{slug(message.splitlines()[0])}.patch'
    if file not in names:
      raise BuildError(f'{FILE} lists no {file}, for the commit '
                       f'"{message.splitlines()[0]}". List it where it belongs')
    path, form = names[file]
    if edited[path]:
      raise BuildError(f'{branch} has two commits for {path}')
    order.append(path)
    patch = _patch(root, path, form, message)
    edited[path] = read_patch(_text(upstream, patch, commit, form), path, form)
  if order != [path for path, patch in edited.items() if patch]:
    raise BuildError(f'{branch} has the patches in another order than {FILE}: '
                     'change it there')
  return edited


def _patch(root: Path, path: str, form: str, message: str) -> Patch:
  """The header of a patch; fields that the message lacks stay as they are."""
  subject, _, rest = message.strip().partition('\n')
  paragraphs = re.split(r'\n{2,}', rest.strip('\n'))
  known = fields_of(WHEEL)
  fields: dict[str, str] = {}
  if (root / FOLDER / path).exists():
    fields = dict(load_patch(root, path, form).fields)
  try:
    # Others, such as Signed-off-by, are for upstream.
    fields |= {
        name: value
        for name, value in read_fields(paragraphs[-1]).items()
        if name in known
    }
    paragraphs.pop()
  except BuildError:
    pass
  missing = [name for name in fields_of(form) if name not in fields]
  if missing:
    raise BuildError(
        f'the commit "{subject}" is no patch yet. Its message lacks '
        f'{", ".join(missing)}: write a line "Name: value" for each into its '
        'last paragraph')
  return Patch(path, subject, '\n\n'.join(paragraphs),
               {name: fields[name] for name in known if name in fields}, ())


def _text(tree: Path, patch: Patch, commit: str, form: str) -> str:
  """The file of a patch, as its commit is."""
  diff = git.read(tree, *_DIFF, commit).decode()
  # Behind the second @@ git quotes a line of upstream's.
  diff = re.sub(r'(?m)^(@@ .*? @@).*$', r'\1', diff)
  text = write_patch(patch.subject, patch.body, patch.fields, diff)
  read_patch(text, patch.name, form)
  return text


def _write(root: Path, texts: dict[str, str], say: Say) -> None:
  """Writes what differs, and removes the patches that have no text."""
  lines = []
  for path, text in texts.items():
    file = root / FOLDER / path
    old = file.read_text(encoding='utf-8') if file.exists() else ''
    if _normal(old) == _normal(text):
      continue
    if text:
      file.parent.mkdir(parents=True, exist_ok=True)
      file.write_text(text, encoding='utf-8')
      lines.append(f'changed {FOLDER}/{path}')
    else:
      file.unlink()
      lines.append(f'removed {FOLDER}/{path}: take it out of {FILE}')
  for line in lines or ['nothing was changed on the branch']:
    say(line)


def _normal(text: str) -> tuple[list[str], str]:
  """A patch but for how its header is wrapped."""
  head, _, diff = text.partition('\n---\n')
  return head.split(), diff
