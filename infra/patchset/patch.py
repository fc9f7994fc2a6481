"""Reads patch files and judges their form."""

from collections.abc import Mapping
from dataclasses import dataclass
import hashlib
from pathlib import Path
import re
import textwrap

from infra.errors import BuildError
from infra.patchset.manifest import FOLDER
from infra.patchset.manifest import Series
from infra.wheel import pins

FIELDS = ('Description', 'Bug', 'Forwarded', 'Applies-to', 'Why-not-overlay',
          'Remove-when')

_SUBJECT = 'Subject: [PATCH] '
_DIVIDER = '\n---\n'
_COLUMNS = 80
_FIELD = re.compile(r'([A-Z][A-Za-z-]*): +(\S.*)')
_INDEX = re.compile(r'index ([0-9a-f]{40})\.\.([0-9a-f]{40}) 100(?:644|755)')
_HUNK = re.compile(r'@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@')


@dataclass(frozen=True)
class Change:
  """What a patch does to one file: from which blob to which."""
  path: str
  old: str
  new: str


@dataclass(frozen=True)
class Patch:
  """One patch file.

  Attributes:
    diff: the text behind the divider.
    changes: what the diff does.
  """
  series: str
  file: Path
  subject: str
  body: str
  fields: dict[str, str]
  diff: str
  changes: tuple[Change, ...]

  @property
  def name(self) -> str:
    return f'{self.series}/{self.file.name}'


def blob_id(data: bytes) -> str:
  """git's id of a file's content."""
  return hashlib.sha1(b'blob %d\0' % len(data) + data).hexdigest()


def slug(subject: str) -> str:
  """The file name, without .patch, of a patch with this subject."""
  return re.sub(r'[^a-z0-9]+', '-', subject.lower()).strip('-')


def write_patch(subject: str, body: str, fields: Mapping[str, str],
                diff: str) -> str:
  """The text of a patch file; fields are folded where they are long."""
  folded = [
      textwrap.fill(
          f'{name}: {value}',
          _COLUMNS,
          subsequent_indent=' ',
          break_long_words=False,
          break_on_hyphens=False) for name, value in fields.items()
  ]
  head = '\n'.join([f'{_SUBJECT}{subject}', '', body, '', *folded])
  return f'{head}{_DIVIDER}{diff}'


def load_patches(root: Path, series: Series) -> list[Patch]:
  """The patches of a series, in order.

  Raises:
    BuildError: a patch is missing or malformed.
  """
  return [
      load_patch(root / FOLDER / series.name / name, series.name)
      for name in series.patches
  ]


def load_patch(file: Path, series: str) -> Patch:
  """Reads a patch file.

  Raises:
    BuildError: it is missing, or not of the form that patches/ asks for.
  """
  name = f'{series}/{file.name}'
  try:
    text = file.read_text(encoding='utf-8')
  except (OSError, UnicodeDecodeError) as error:
    raise BuildError(f'patch {name} cannot be read: {error}') from error
  head, divider, diff = text.partition(_DIVIDER)
  if not divider:
    raise BuildError(f'patch {name} has no line --- between text and diff')
  try:
    subject, body, fields = _read_head(head)
    changes = _read_diff(diff)
  except BuildError as error:
    raise BuildError(f'patch {name}: {error}') from None
  if file.name != f'{slug(subject)}.patch':
    raise BuildError(f'patch {name}: a patch is called after its subject, so '
                     f'this one {slug(subject)}.patch')
  return Patch(series, file, subject, body, fields, diff, changes)


def _read_head(head: str) -> tuple[str, str, dict[str, str]]:
  """Subject, body and fields of a patch's text; the fields stand last."""
  lines = head.split('\n')
  if not lines[0].startswith(_SUBJECT):
    raise BuildError(f'the first line has to begin with "{_SUBJECT}"')
  subject = lines[0][len(_SUBJECT):].strip()
  if not subject:
    raise BuildError('the subject is empty')
  paragraphs = re.split(r'\n{2,}', '\n'.join(lines[1:]).strip('\n'))
  fields = read_fields(paragraphs[-1])
  missing = [name for name in FIELDS if name not in fields]
  if missing:
    raise BuildError(f'the last paragraph lacks {", ".join(missing)}')
  if pins.OFFICIAL_VERSION not in fields['Applies-to']:
    raise BuildError(f'Applies-to does not name {pins.OFFICIAL_VERSION}')
  body = '\n\n'.join(paragraphs[:-1])
  if not body:
    raise BuildError('there is no text that says why, before the fields')
  if re.search(r'(?m)^(From|Author|Signed-off-by): ', head):
    raise BuildError('it names an author; the commit that `export` makes takes '
                     'its user\'s identity')
  return subject, body, fields


def read_fields(paragraph: str) -> dict[str, str]:
  """The `Name: value` lines of a paragraph, continuation lines joined.

  Raises:
    BuildError: a line is none, or a name stands there twice.
  """
  fields: dict[str, str] = {}
  for line in re.sub(r'\n[ \t]+', ' ', paragraph).split('\n'):
    match = _FIELD.fullmatch(line)
    if not match:
      raise BuildError('the last paragraph has to hold the fields '
                       f'{", ".join(FIELDS)}; this line is none: {line!r}')
    if match[1] in fields:
      raise BuildError(f'{match[1]} stands there twice')
    fields[match[1]] = match[2].strip()
  return fields


def _read_diff(diff: str) -> tuple[Change, ...]:
  """The changes of a diff, whose every line is judged."""
  changes: list[Change] = []
  lines = diff.removesuffix('\n').split('\n')
  at = 0
  while at < len(lines):
    change, at = _read_file_header(lines, at)
    if any(change.path == other.path for other in changes):
      raise BuildError(f'{change.path} is changed in two places of the diff')
    changes.append(change)
    start = at
    while at < len(lines) and lines[at].startswith('@@'):
      at = _read_hunk(lines, at)
    if at == start:
      raise BuildError(f'the diff of {change.path} has no hunk')
  return tuple(changes)


def _read_file_header(lines: list[str], at: int) -> tuple[Change, int]:
  """The four lines before a file's hunks, and where the hunks begin."""
  match = re.fullmatch(r'diff --git a/(\S+) b/(\S+)', lines[at])
  if not match or match[1] != match[2]:
    raise BuildError(f'expected a line "diff --git a/FILE b/FILE": {lines[at]}')
  path = match[1]
  if '..' in path.split('/') or path.startswith('/'):
    raise BuildError(f'{path} lies outside the tree')
  index = _INDEX.fullmatch(lines[at + 1]) if at + 1 < len(lines) else None
  if not index:
    raise BuildError(
        f'{path} needs an index line with two full blob ids and a mode (git '
        'diff -U0 --full-index); a new file belongs to the overlay, and a file '
        'is neither removed, renamed nor given another mode')
  if index[1] == index[2] or '0' * 40 in index.groups():
    raise BuildError(f'{path} is not changed, or is new or removed')
  if lines[at + 2:at + 4] != [f'--- a/{path}', f'+++ b/{path}']:
    raise BuildError(f'{path} needs the lines --- a/{path} and +++ b/{path}')
  return Change(path, index[1], index[2]), at + 4


def _read_hunk(lines: list[str], at: int) -> int:
  """Judges the hunk that begins at a line; returns where it ends."""
  match = _HUNK.fullmatch(lines[at])
  if not match:
    # Behind the second @@ git quotes a line of upstream's.
    raise BuildError(f'a hunk line has to end with @@: {lines[at]}')
  left = {'-': int(match[1] or 1), '+': int(match[2] or 1)}
  at += 1
  while at < len(lines) and lines[at][:1] in ('-', '+', '\\', ' ', ''):
    sign = lines[at][:1]
    if sign in (' ', ''):
      raise BuildError('a hunk holds a context line (line '
                       f'{at + 1} of the diff); make it with git diff -U0')
    if sign != '\\':
      left[sign] -= 1
    at += 1
  if any(left.values()):
    raise BuildError('a hunk does not hold the lines that it announces')
  return at
