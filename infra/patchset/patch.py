"""Reads patch files and judges their form."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
import hashlib
from pathlib import Path
import re
import textwrap

from infra.errors import BuildError, within
from infra.patchset.manifest import FOLDER, Series, WHEEL
from infra.wheel import pins

FIELDS = ('Description', 'Bug', 'Forwarded', 'Applies-to', 'Remove-when')
# What a patch for the official wheel has to say besides.
WHY_NOT_OVERLAY = 'Why-not-overlay'

# What upstream's sources have and a wheel has not.
_NOT_IN_A_WHEEL = ('test/', 'docs/')

_SUBJECT = 'Subject: [PATCH] '
_DIVIDER = '\n---\n'
_COLUMNS = 80
_FIELD = re.compile(r'([A-Z][A-Za-z-]*): +(\S.*)')
_CHANGE = re.compile(
    r'diff --git a/(\S+) b/\1\n'
    r'index (?!0{40})([0-9a-f]{40})\.\.(?!0{40})([0-9a-f]{40}) 100(?:644|755)\n'
    r'--- a/\1\n\+\+\+ b/\1\n'
    r'(?:@@ -[\d,]+ \+[\d,]+ @@\n(?:[-+\\].*\n)+)+')


@dataclass(frozen=True)
class Change:
  """The change of a patch to one file: from which blob to which.

  Attributes:
    diff: that part of the patch's diff.
  """
  path: str
  old: str
  new: str
  diff: str


@dataclass(frozen=True)
class Patch:
  """One patch file.

  Attributes:
    name: its path under patches/.
    changes: what its diff does, file by file.
  """
  name: str
  subject: str
  body: str
  fields: dict[str, str]
  changes: tuple[Change, ...]

  @property
  def file(self) -> str:
    """The name of its file."""
    return self.name.rpartition('/')[2]

  def wheel_part(self) -> 'Patch':
    """The patch without the parts that a wheel has no files for.

    Raises:
      BuildError: nothing is left.
    """
    changes = tuple(
        c for c in self.changes if not c.path.startswith(_NOT_IN_A_WHEEL))
    if not changes:
      raise BuildError(f'patch {self.name} is listed for the wheel and changes '
                       'no file that a wheel has')
    return replace(self, changes=changes)


def blob_id(data: bytes) -> str:
  """The id that git gives a file's content."""
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


def wheel_patches(root: Path, series: Series) -> list[Patch]:
  """The patches of a series for a wheel, in order; errors as `load_patch`."""
  return [load_patch(root, name, WHEEL).wheel_part() for name in series.wheel]


def load_patch(root: Path, name: str, form: str) -> Patch:
  """Reads a patch file.

  Args:
    root: the checkout of this project.
    name: the file's path under patches/.
    form: what the patch is for, which it has to say.

  Raises:
    BuildError: it is missing, or not of the form that patches/ asks for.
  """
  try:
    text = (root / FOLDER / name).read_bytes().decode()
  except (OSError, UnicodeDecodeError) as error:
    raise BuildError(f'patch {name} cannot be read: {error}') from error
  return read_patch(text, name, form)


def read_patch(text: str, name: str, form: str) -> Patch:
  """The patch that a file says; arguments and errors as `load_patch`."""
  with within(f'patch {name}'):
    head, divider, diff = text.partition(_DIVIDER)
    if not divider:
      raise BuildError('there is no line --- between text and diff')
    subject, body, fields = _read_head(head)
    _check_fields(fields, form)
    patch = Patch(name, subject, body, fields, _read_diff(diff))
    if patch.file != f'{slug(subject)}.patch':
      raise BuildError('a patch is called after its subject, so this one '
                       f'{slug(subject)}.patch')
  return patch


def fields_of(form: str) -> tuple[str, ...]:
  """The fields that the header of a patch needs for this form."""
  return (*FIELDS[:-1], WHY_NOT_OVERLAY,
          FIELDS[-1]) if form == WHEEL else FIELDS


def _check_fields(fields: Mapping[str, str], form: str) -> None:
  """Raises BuildError unless a patch says all that its form asks for."""
  missing = [name for name in fields_of(form) if name not in fields]
  if missing:
    raise BuildError(f'the last paragraph lacks {", ".join(missing)}')
  target = pins.OFFICIAL_VERSION if form == WHEEL else form
  # A base's name can be the beginning of another's.
  name = rf'(?<!\w){re.escape(target)}(?![\w+]|\.\w)'
  if form == WHEEL:
    name = f'{pins.PACKAGE} {name}'
  if not re.search(name, fields['Applies-to']):
    raise BuildError(f'Applies-to does not name {target}')


def _read_head(head: str) -> tuple[str, str, dict[str, str]]:
  """The subject, body and fields of a patch's text; the fields stand last."""
  lines = head.split('\n')
  if not lines[0].startswith(_SUBJECT):
    raise BuildError(f'the first line has to begin with "{_SUBJECT}"')
  subject = lines[0][len(_SUBJECT):].strip()
  paragraphs = re.split(r'\n{2,}', '\n'.join(lines[1:]).strip('\n'))
  fields = read_fields(paragraphs[-1])
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
  """The changes of a diff; that its hunks are whole `Stack.apply` judges."""
  changes: list[Change] = []
  for part in re.split(r'(?m)^(?=diff --git )', diff):
    match = _CHANGE.fullmatch(part)
    if part and not match:
      raise BuildError(
          'the diff has to be as `git diff -U0 --full-index` writes it: no '
          'context line, nothing behind the second @@, which git quotes of '
          'upstream\'s, and an index line with two full blob ids and a mode. A '
          'new file belongs to the overlay, and a file is neither removed, '
          f'renamed nor given another mode:\n{part[:400]}')
    if match:
      path, old, new = match.groups()
      if '..' in path.split('/') or path.startswith('/'):
        raise BuildError(f'{path} lies outside the tree')
      if old == new or any(path == other.path for other in changes):
        raise BuildError(f'{path} is not changed, or in two places of the diff')
      changes.append(Change(path, old, new, part))
  if not changes:
    raise BuildError('there is no diff behind the line ---')
  return tuple(changes)
