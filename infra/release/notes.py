"""The notes of a release: its changes, checksums and the trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import dataclasses
import re

from infra.errors import BuildError
from infra.release.trial import Trial

_HEADING = re.compile(r'^## +(\S+)(.*)$', re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Section:
  """The part of a changelog on one version.

  Attributes:
    heading: what stands behind the version, as in '(unreleased)'.
    text: the changes.
  """
  heading: str
  text: str

  @property
  def released(self) -> bool:
    """Tests whether the heading has a date and not '(unreleased)'."""
    return bool(re.fullmatch(r'\(\d{4}-\d\d-\d\d\)', self.heading))


def section(changelog: str, version: str) -> Section:
  """Finds the section of a version.

  Raises:
    BuildError: there is none, or it is empty.
  """
  headings = list(_HEADING.finditer(changelog))
  for at, heading in enumerate(headings):
    if heading[1] != version:
      continue
    end = (
        headings[at + 1].start() if at + 1 < len(headings) else len(changelog))
    text = changelog[heading.end():end].strip()
    if not text:
      raise BuildError(f'CHANGELOG.md says nothing under {version}: write down '
                       'what changed')
    return Section(heading[2].strip(), text)
  known = ', '.join(heading[1] for heading in headings) or 'none'
  raise BuildError(f'CHANGELOG.md has no section for {version} (it has '
                   f'{known}): add `## {version} (unreleased)`, or correct '
                   'VERSION in infra/wheel/pins.py')


def checksums(digests: Mapping[str, str]) -> str:
  """The file that `sha256sum --check` reads.

  Args:
    digests: sha256 of each file, in hex.
  """
  return ''.join(
      f'{digest}  {name}\n' for name, digest in sorted(digests.items()))


def notes(version: str, commit: str, changes: str, digests: Mapping[str, str],
          trials: Sequence[Trial]) -> str:
  """The notes of a release, in Markdown."""
  files = '\n'.join(
      f'| `{name}` | `{digest}` |' for name, digest in sorted(digests.items()))
  tried = '\n'.join(
      f'| {trial.python} | {trial.where} | {trial.outcome.verdict} | '
      f'{_cell(trial.outcome.text)} |' for trial in trials)
  return f"""\
# torch_xla {version}

Built from {commit}.

## Changes

{changes}

## Files

`sha256sum --check SHA256SUMS` checks them, `python -m infra.wheel verify FILE`
what a wheel is made of.

| file | sha256 |
| --- | --- |
{files}

## Tried

Each wheel was built and verified. Installed, and a sharded model trained under
Shardy on eight virtual CPU devices:

| Python | where | verdict | |
| --- | --- | --- | --- |
{tried}
"""


def _cell(text: str) -> str:
  return text.replace('|', '\\|').replace('\n', ' ')
