"""A golden file: what a report said once, by section, and what differs from it.

A section has subjects, such as a tensor or a program, and a subject has fields,
each a plain value. Who makes sections leaves out what is of one run alone, such
as the number in a program's name.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import dataclasses
import json
import os
import re
from typing import Any, Optional, Union

from torch_xla_shardy.parser import SECTIONS, write

from ..layers import many_text
from .quantity import change_text, Unit
from .requirements import Tolerance

# What does not change with the number of steps.
DEFAULT = SECTIONS[:-1]
GONE = 'it is gone'
NEW = 'it is new'
_FORMAT = 'torch_xla golden file 1'
_HINT = 'write one with --golden FILE --update-golden'
_ABSENT = object()
# More than this of one value is not shown.
_SHOWN = 120
# As HLO numbers what would otherwise have the same name.
_NUMBERED = re.compile(r'(?<![\w.])([A-Za-z_][\w-]*)\.\d+(?!\.?\w)')

Path = Union[str, 'os.PathLike[str]']


class GoldenFileError(ValueError):
  """A golden file that cannot be used."""


@dataclasses.dataclass(frozen=True)
class Golden:
  """The contents of a golden file.

  Attributes:
    tool: that makes such files: 'audit' or 'aot'.
    sections: fields by section and subject.
    made_by: what else made it, such as a compiler: told where anything differs.
  """
  tool: str
  sections: Mapping[str, Mapping[str, Mapping[str, Any]]]
  made_by: str = ''

  def only(self, chosen: Optional[Sequence[str]]) -> Golden:
    """The sections that are chosen; None: all that it has but counts."""
    names = chosen or [s for s in DEFAULT if s in self.sections] or DEFAULT
    for name in names:
      if name not in self.sections:
        raise GoldenFileError(f'the golden file has no section {name}, but '
                              f'{", ".join(self.sections) or "none"}; {_HINT}')
    return dataclasses.replace(
        self, sections={name: self.sections[name] for name in names})

  def to_text(self) -> str:
    data = {'format': _FORMAT, **dataclasses.asdict(self)}
    return json.dumps(data, indent=1, sort_keys=True) + '\n'


@dataclasses.dataclass(frozen=True)
class Change:
  """The differences of one subject, in words."""
  section: str
  subject: str
  text: str

  def __str__(self) -> str:
    return f'{self.subject}: {self.text}'


def read(path: Path, tool: str) -> Golden:
  """Reads a golden file."""
  try:
    with open(path, encoding='utf-8') as f:
      data = json.load(f)
    if not isinstance(data, dict) or (data.get('format'),
                                      data.get('tool')) != (_FORMAT, tool):
      raise ValueError('it is a report of --json, which golden files once were'
                       if isinstance(data, dict) and {'schema', 'reports'} &
                       data.keys() else f'it is none of this {tool}')
    return Golden(
        tool, {
            section: {
                name: dict(fields) for name, fields in subjects.items()
            } for section, subjects in data['sections'].items()
        }, data['made_by'])
  except (OSError, ValueError, RecursionError, AttributeError, KeyError,
          TypeError) as e:
    raise GoldenFileError(f'golden file {os.fspath(path)}: {e}; {_HINT}') from e


def changes(
    was: Golden,
    now: Golden,
    tolerance: Callable[[str], Tolerance] = Tolerance) -> tuple[Change, ...]:
  """The differences in the sections that both have.

  A subject that one has alone is told once.

  Args:
    tolerance: of a field, by name.
  """
  differences: list[Change] = []
  alone: set[str] = set()
  for section in SECTIONS:
    if section not in was.sections or section not in now.sections:
      continue
    before, after = was.sections[section], now.sections[section]
    for subject in dict.fromkeys([*before, *after]):
      if subject in before and subject in after:
        differences += (
            Change(section, subject, text) for text in _differing(
                section, before[subject], after[subject], tolerance))
      elif subject not in alone:
        alone.add(subject)
        differences.append(
            Change(section, subject, GONE if subject in before else NEW))
  if differences and was.made_by != now.made_by:
    differences.append(
        Change(
            differences[-1].section, 'made by',
            f'it was {was.made_by or "not told"}, and is '
            f'{now.made_by or "not told"}: that alone can make a difference'))
  return tuple(differences)


def grouped(differences: Iterable[Change],
            title: Callable[[Sequence[str]], str] = many_text) -> list[Change]:
  """Changes that say the same of several subjects as one, of all of these.

  Args:
    title: what several subjects are called together.
  """
  subjects: dict[tuple[str, str], list[str]] = {}
  for change in differences:
    subjects.setdefault((change.section, change.text),
                        []).append(change.subject)
  return [
      Change(section, title(names), text)
      for (section, text), names in subjects.items()
  ]


def update(
    path: Path,
    now: Golden,
    chosen: Optional[Sequence[str]] = None) -> tuple[str, tuple[Change, ...]]:
  """Writes the golden file; returns a line on it, and what changed.

  Args:
    chosen: the sections that it gets; None: all but counts.

  Raises:
    OutputError: it cannot be written.
  """
  now = now.only(chosen)
  summary, differences = f'golden file {os.fspath(path)} is new', ()
  if os.path.exists(path):
    try:
      differences = changes(read(path, now.tool), now)
      summary = f'golden file {os.fspath(path)}: ' + ('updated' if differences
                                                      else 'nothing changed')
    except GoldenFileError as e:
      summary = f'replaced: {e}'
  write(os.fspath(path), now.to_text())
  return summary, differences


def steady(text: str) -> str:
  """A text without the numbers of instructions: 'SyncTensorsGraph'."""
  return _NUMBERED.sub(r'\1', text)


def numbered(names: Iterable[str]) -> list[str]:
  """Numbers steady names so that they differ: 'SyncTensorsGraph #1', #2."""
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
  text = ''
  if was and _is_number(was) and _is_number(now):
    text = f', {change_text(was, now)}'
  elif isinstance(was, str) and isinstance(now, str):
    # Long ones are shown where they begin to differ.
    start = max(0, len(os.path.commonprefix([was, now])) - _SHOWN // 4)
    was, now = (
        v if len(v) <= _SHOWN else '...' * bool(start) +
        v[start:start + _SHOWN] + '...' for v in (was, now))
  return f'it was {_show(was, is_bytes)}, and is {_show(now, is_bytes)}{text}'


def _is_number(value: Any) -> bool:
  return isinstance(value, (int, float)) and not isinstance(value, bool)


def _show(value: Any, is_bytes: bool) -> str:
  if _is_number(value):
    return (Unit.BYTES if is_bytes else Unit.COUNT).exact(value)
  return ('absent' if value is _ABSENT else
          value if isinstance(value, str) else json.dumps(value))
