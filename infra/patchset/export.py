"""Lays a series on the user's own checkout of upstream, as a branch."""

from pathlib import Path

from infra.errors import BuildError, Say
from infra.patchset import git
from infra.patchset.worktree import (CONFIG, has_commit, Laid, work_tree,
                                     Worktree)
from infra.patchset.manifest import load_manifest

BRANCH_PREFIX = 'fork/'


def export(root: Path,
           upstream: Path,
           name: str,
           target: str,
           branch: str,
           say: Say = print) -> Laid:
  """Makes a branch of a series, behind what it depends on.

  Args:
    root: the checkout of this project.
    upstream: the user's checkout of upstream. Its work tree is not touched.
    name: the series.
    target: a base, any commit of the checkout, or WHEEL for the patches of the
      official wheel, on its tag.
    branch: the branch's name.
    say: is called with progress.

  Raises:
    BuildError: the checkout is not fit, the branch exists, or a patch meets a
      change of the tree; no branch is made then.
  """
  manifest = load_manifest(root)
  chain = manifest.with_dependencies(name)
  if not any(series.forms()[series.form_for(target)] for series in chain):
    raise BuildError(f'series {name} has no patches for {target}')
  with work_tree(upstream) as tree:
    if has_commit(upstream, f'refs/heads/{branch}'):
      raise BuildError(f'{upstream} has a branch {branch} already. Delete it '
                       f'(git branch -D {branch}) or choose another name with '
                       '--branch.')
    laid = Worktree(root, manifest, tree).lay(chain, target)
    for entry in laid.patches:
      say(f'{entry.series}: {entry.patch.subject}')
      if entry.conflict:
        say(f'meets changes of the tree:\n{entry.conflict}')
    if count := sum(bool(entry.conflict) for entry in laid.patches):
      raise BuildError(
          f'{count} patches meet changes of {target}, as shown above. To solve '
          'them by hand export to a base (--base), and rebase that branch with '
          'git')
    git.need(tree, *CONFIG, 'switch', '--quiet', '--create', branch)
    # For `import`; git drops it with the branch.
    for key, value in (('name', name), ('target', target), ('start',
                                                            laid.start)):
      git.need(tree, 'config', f'branch.{branch}.series-{key}', value)
  say(f'branch {branch} on {target}')
  return laid
