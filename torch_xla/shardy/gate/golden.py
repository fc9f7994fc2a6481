"""A golden file: what a report said once, by section, and what differs from it.

A section has subjects, such as a tensor or a program, and a subject has fields,
each a plain value. What says nothing of a program but its place in one run, such
as the number in an instruction's name, is left out by whoever makes sections.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import dataclasses
import json
import os
import re
from typing import Any, Optional, Union

from .quantity import change_text, Unit
from .requirements import Tolerance

SECTIONS = ('placements', 'programs', 'collectives', 'memory', 'counts')
# What does not change with the number of steps.
DEFAULT = SECTIONS[:-1]
GONE = 'it is gone'
NEW = 'it is new'
_FORMAT = 'torch_xla golden file'
_VERSION = 1
_HINT = 'write one with --golden FILE --update-golden'
_ABSENT = object()
# More than this of one value is not shown.
_SHOWN = 120
# As HLO numbers what would otherwise have the same name.
_NUMBERED = re.compile(r'(?<![\w.])([A-Za-z_][\w-]*)\.\d+(?!\.?\w)')

Path = Union[str, 'os.PathLike[str]']
# By section, subject and field.
Sections = Mapping[str, Mapping[str, Mapping[str, Any]]]


class GoldenFileError(ValueError):
  """A golden file that is missing or is none, or a section that is none."""


@dataclasses.dataclass(frozen=True)
class Golden:
  """What a golden file holds.

  Attributes:
    tool: that makes such files: 'audit' or 'aot'.
    made_by: what else made it, such as a compiler: told where anything differs.
  """
  tool: str
  sections: Sections
  made_by: str = ''

  def only(self, chosen: Sequence[str]) -> Golden:
    return dataclasses.replace(
        self, sections={name: self.sections[name] for name in chosen})

  def to_text(self) -> str:
    return json.dumps(
        {
            'format': _FORMAT,
            'version': _VERSION,
            **dataclasses.asdict(self)
        },
        indent=1,
        sort_keys=True) + '\n'


@dataclasses.dataclass(frozen=True)
class Change:
  """What differs of one subject, in words."""
  section: str
  subject: str
  text: str

  def __str__(self) -> str:
    return f'{self.subject}: {self.text}'


def choose(text: Optional[str]) -> Optional[tuple[str, ...]]:
  """The sections of 'programs,memory', in order; None: nobody chose.

  Raises:
    GoldenFileError: one of these is none.
  """
  if text is None:
    return None
  names = [name.strip() for name in text.split(',')]
  for name in names:
    if name not in SECTIONS:
      raise GoldenFileError(f'golden section {name!r}: there are '
                            f'{", ".join(SECTIONS)}')
  return tuple(name for name in SECTIONS if name in names)


def read(path: Path,
         tool: str,
         chosen: Optional[Sequence[str]] = None) -> Golden:
  """The golden file's sections that are chosen.

  Args:
    chosen: None: all but counts of those that it has.

  Raises:
    GoldenFileError: as `read_all` does; or there is no such section.
  """
  golden = read_all(path, tool)
  sections = [s for s in DEFAULT if s in golden.sections
             ] if chosen is None else chosen
  for section in sections or DEFAULT:
    if section not in golden.sections:
      raise GoldenFileError(
          f'golden file {os.fspath(path)} has no section {section}, but '
          f'{", ".join(golden.sections) or "none"}; {_HINT}')
  return golden.only(sections)


def read_all(path: Path, tool: str) -> Golden:
  """All of a golden file.

  Raises:
    GoldenFileError: it cannot be read, or is none of this tool's.
  """
  name = os.fspath(path)
  try:
    with open(path, encoding='utf-8') as f:
      data = json.load(f)
  except (OSError, ValueError, RecursionError) as e:
    raise GoldenFileError(f'golden file {name}: {e}; {_HINT}') from e
  if not isinstance(data, dict) or (data.get('format'), data.get('version'),
                                    data.get('tool')) != (_FORMAT, _VERSION,
                                                          tool):
    old = isinstance(data, dict) and ('schema' in data or 'reports' in data)
    what = ('is a report of --json, which golden files once were'
            if old else f'is none of this {tool}')
    raise GoldenFileError(f'golden file {name} {what}; {_HINT}')
  try:
    return Golden(
        tool, {
            section: {
                subject: dict(fields) for subject, fields in subjects.items()
            } for section, subjects in data['sections'].items()
        }, str(data['made_by']))
  except (AttributeError, KeyError, TypeError, ValueError) as e:
    raise GoldenFileError(f'golden file {name} is damaged; {_HINT}') from e


def changes(
    was: Golden,
    now: Golden,
    tolerance: Callable[[str], Tolerance] = Tolerance) -> tuple[Change, ...]:
  """What differs in the sections that both have.

  A subject that one has alone is told once.

  Args:
    tolerance: of a field, by name.
  """
  found: list[Change] = []
  alone: set[str] = set()
  for section in SECTIONS:
    if section not in was.sections or section not in now.sections:
      continue
    before, after = was.sections[section], now.sections[section]
    for subject in dict.fromkeys([*before, *after]):
      if subject in before and subject in after:
        found += (
            Change(section, subject, text) for text in _differing(
                section, before[subject], after[subject], tolerance))
      elif subject not in alone:
        alone.add(subject)
        found.append(
            Change(section, subject, GONE if subject in before else NEW))
  if found and was.made_by != now.made_by:
    found.append(
        Change(
            found[-1].section, 'made by',
            f'it was {was.made_by or "not told"}, and is '
            f'{now.made_by or "not told"}: that alone can make a difference'))
  return tuple(found)


def update(
    path: Path,
    now: Golden,
    chosen: Optional[Sequence[str]] = None) -> tuple[str, tuple[Change, ...]]:
  """Writes the golden file; returns a line on it, and what changed.

  Args:
    chosen: the sections that it gets; None: all but counts.

  Raises:
    OSError: it cannot be written.
  """
  now = now.only(chosen or DEFAULT)
  said, found = f'golden file {os.fspath(path)} is new', ()
  if os.path.exists(path):
    try:
      found = changes(read_all(path, now.tool), now)
      said = f'golden file {os.fspath(path)}: ' + ('updated' if found else
                                                   'nothing changed')
    except GoldenFileError as e:
      said = f'replaced: {e}'
  with open(path, 'w', encoding='utf-8') as f:
    f.write(now.to_text())
  return said, found


def steady(text: str) -> str:
  """A text without the numbers of instructions: 'SyncTensorsGraph'."""
  return _NUMBERED.sub(r'\1', text)


def numbered(names: Iterable[str]) -> list[str]:
  """Steady names that differ: 'SyncTensorsGraph #1', and #2."""
  seen: collections.Counter[str] = collections.Counter()
  result = []
  for name in map(steady, names):
    seen[name] += 1
    result.append(f'{name} #{seen[name]}')
  return result


def _differing(section: str, was: Mapping[str, Any], now: Mapping[str, Any],
               tolerance: Callable[[str], Tolerance]) -> Iterator[str]:
  """A text for all fields that changed alike."""
  fields: dict[str, list[str]] = {}
  for name in dict.fromkeys([*was, *now]):
    a, b = was.get(name, _ABSENT), now.get(name, _ABSENT)
    allowed = tolerance(name)
    if all(v is _ABSENT or _is_number(v) for v in (a, b)):
      # What was never counted is none.
      a, b = (0 if v is _ABSENT else v for v in (a, b))
      same = allowed.allows(a, b)
    else:
      same = a == b
    if not same:
      is_bytes = section == 'memory' or 'bytes' in name.split()
      text = _change(a, b, is_bytes)
      if allowed.text != '0':
        text += f' (tolerance {allowed.text})'
      fields.setdefault(text, []).append(name)
  for text, names in fields.items():
    yield f'{", ".join(names)}: {text}'


def _change(was: Any, now: Any, is_bytes: bool) -> str:
  start = 0
  if isinstance(was, str) and isinstance(now, str):
    same = len(os.path.commonprefix([was, now]))
    start = same - _SHOWN // 4 if same > _SHOWN // 2 else 0
  text = (f'it was {_show(was, is_bytes, start)}, and is '
          f'{_show(now, is_bytes, start)}')
  if was and _is_number(was) and _is_number(now):
    text += f', {change_text(was, now)}'
  return text


def _is_number(value: Any) -> bool:
  return isinstance(value, (int, float)) and not isinstance(value, bool)


def _show(value: Any, is_bytes: bool, start: int) -> str:
  if value is _ABSENT:
    return 'absent'
  if _is_number(value):
    return (Unit.BYTES if is_bytes else Unit.COUNT).exact(value)
  if not isinstance(value, str):
    return json.dumps(value)
  head = '...' if start else ''
  tail = '...' if len(value) - start > _SHOWN else ''
  return head + value[start:start + _SHOWN] + tail
