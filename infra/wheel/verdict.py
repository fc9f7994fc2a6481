"""The verdict on a wheel."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
import json

SCHEMA = 1


@dataclass(frozen=True)
class Verified:
  """A file of a wheel that is what it should be.

  Attributes:
    origin: where it is from.
    by: the patches that made it from upstream's, as 'series: file'.
    sha256: of its content, in hex.
  """
  name: str
  origin: str
  by: tuple[str, ...]
  sha256: str


@dataclass(frozen=True)
class Problem:
  """A file of a wheel that is not what it should be, and why."""
  name: str
  text: str


@dataclass(frozen=True)
class Verdict:
  """The verdict on every file of a wheel."""
  wheel: str
  members: tuple[Verified, ...]
  problems: tuple[Problem, ...]

  @property
  def ok(self) -> bool:
    """Tests that no file is missing, altered or of unknown origin."""
    return not self.problems

  def to_json(self) -> str:
    """The verdict for programs: equal wheels give equal texts."""
    data = {
        'schema': SCHEMA,
        'wheel': self.wheel,
        'ok': self.ok,
        'members': [asdict(member) for member in self.members],
        'problems': [asdict(problem) for problem in self.problems],
    }
    return json.dumps(data, indent=2, sort_keys=True) + '\n'

  def __str__(self) -> str:
    """Counts of files by origin, the patches of each, and problems."""
    lines = [_shown(self.wheel)]
    for origin, count in Counter(m.origin for m in self.members).items():
      lines.append(f'{count:6} {origin}')
      for member in self.members:
        if member.origin == origin and member.by:
          lines.append(f'         {_shown(member.name)}')
          lines += [f'           {_shown(by)}' for by in member.by]
    lines += [
        f'error: {_shown(p.name) or "(no name)"}: {_shown(p.text)}'
        for p in self.problems
    ]
    count = len(self.problems)
    lines.append(
        f'{count} problem(s): do not install it' if count else
        f'verified: all {len(self.members)} files are what they should be')
    return '\n'.join(lines)


def _shown(text: str) -> str:
  """A text for a terminal, which a hostile wheel's must not steer."""
  return ''.join(c if c.isprintable() else c.encode('unicode_escape').decode()
                 for c in text)
