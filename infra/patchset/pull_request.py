"""Makes the text of a pull request of a series' cover letter."""

from collections.abc import Sequence
from pathlib import Path

from infra.errors import BuildError
from infra.patchset.manifest import FOLDER, Manifest, UPSTREAM
from infra.patchset.patch import Patch
from infra.patchset.worktree import Laid

COVER = 'COVER.md'


def read_cover(root: Path, series: str) -> tuple[str, str]:
  """The title and text of a series' cover letter.

  Raises:
    BuildError: there is none, or it does not begin with a title.
  """
  name = f'{FOLDER}/{UPSTREAM}/{series}/{COVER}'
  path = root / name
  text = path.read_text(encoding='utf-8') if path.exists() else ''
  title, _, body = text.partition('\n')
  if not title.startswith('# ') or not body.strip():
    raise BuildError(
        f'{name} has to begin with "# " and the title, and to tell the problem '
        'with a reproduction and its output, the change, why so, the tests, '
        'and what it does not do')
  return title[2:].strip(), body.strip('\n')


def pull_request(root: Path, manifest: Manifest, name: str, target: str,
                 laid: Laid) -> str:
  """The text of the pull request for a branch.

  Args:
    root: the checkout of this project.
    manifest: its series.
    name: the series that the branch is of.
    target: the base, or what was named in its place.
    laid: its patches, those that it depends on first.

  Raises:
    BuildError: as `read_cover`.
  """
  title, body = read_cover(root, name)
  lines = [
      f'# {title}', '', body, '', '## Commits', '',
      f'On {target}, {laid.start}:', ''
  ]
  lines += [f'- {commit}, as it is upstream' for commit in laid.picked]
  for entry in laid.patches:
    bug = manifest.find(entry.series).bug
    mark = '' if entry.series == name else f' (of {bug})'
    lines.append(f'- {entry.patch.subject}{mark}')
  return '\n'.join(lines) + '\n'


def request_of_patch(root: Path, name: str, patch: Patch,
                     before: Sequence[str]) -> str:
  """The text of the pull request for a patch of a series alone.

  Args:
    before: the subjects of the series' patches that it stands on.

  Raises:
    BuildError: as `read_cover`.
  """
  status = read_cover(root, name)[1].partition('\n\n')[0]
  return '\n'.join([
      f'# {patch.subject}', '',
      *([status, ''] if 'not built' in status else []), patch.body, '',
      f'Of {patch.fields["Bug"]}.',
      *(['', 'Stands on:', '', *(f'- {subject}'
                                 for subject in before)] if before else [])
  ]) + '\n'
