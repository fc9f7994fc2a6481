"""Makes the text of a pull request of a series' cover letter."""

from collections.abc import Sequence
from pathlib import Path

from infra.errors import BuildError
from infra.patchset.manifest import FOLDER, Manifest, UPSTREAM
from infra.patchset.patch import load_patches, Patch

COVER = 'COVER.md'


def read_cover(root: Path, series: str) -> tuple[str, str]:
  """The title and text of a series' cover letter.

  Raises:
    BuildError: there is none, or it does not begin with a title.
  """
  name = f'{FOLDER}/{UPSTREAM}/{series}/{COVER}'
  try:
    text = (root / name).read_text(encoding='utf-8')
  except FileNotFoundError:
    raise BuildError(
        f'{name} is missing. It begins with "# " and the title, and tells the '
        'problem with a reproduction and its output, the change, why so, the '
        'tests, and what it does not do') from None
  title, _, body = text.partition('\n')
  if not title.startswith('# ') or not body.strip():
    raise BuildError(f'{name} has to begin with "# " and the title, and to go '
                     'on behind it')
  return title[2:].strip(), body.strip('\n')


def pull_request(root: Path, manifest: Manifest, name: str, base: str,
                 start: str, picked: Sequence[str]) -> str:
  """The text of the pull request for a branch.

  Args:
    root: the checkout of this project.
    manifest: its series.
    name: the series that the branch is of.
    base: of its patches.
    start: the commit that the branch is on, as it is told.
    picked: commits of upstream's that come first on it.

  Raises:
    BuildError: as `read_cover`, or a patch cannot be read.
  """
  title, body = read_cover(root, name)
  lines = [f'# {title}', '', body, '', '## Commits', '', f'On {start}:', '']
  for commit in picked:
    lines.append(f'- {commit}, as it is upstream')
  for series in manifest.with_dependencies(name):
    mark = '' if series.name == name else f' (of {series.bug})'
    for patch in load_patches(root, series, series.home(base)):
      lines.append(f'- {patch.subject}{mark}')
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
      *(['', 'Stands on:', '', *(f'- {one}'
                                 for one in before)] if before else [])
  ]) + '\n'
