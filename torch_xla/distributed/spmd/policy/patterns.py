r"""Patterns over the dotted names of parameters and modules.

A pattern is a glob that has to match the whole name:

  *       anything within one part of the name
  ?       one character within a part
  {a,b}   either of these within a part; they may hold others
  **      any number of whole parts, none included
  \x      the character x itself

as in `blocks.*.{up,qkv}.weight` and `**.bias`. The pattern of no characters is
that of the model itself.
"""

from __future__ import annotations

import functools
import re

_ESCAPE = '\\'
_SPECIAL = re.compile(r'[*?{},\[\]\\]')


class PolicyError(ValueError):
  """A sharding policy that cannot be used; the base of this package's."""


class RuleError(PolicyError):
  """A rule or boundary that says nothing that could be done."""


class PatternError(RuleError):
  """Raised where a pattern is malformed."""


def literal(name: str) -> str:
  """The pattern of this name alone."""
  return _SPECIAL.sub(lambda found: _ESCAPE + found.group(), name)


def matches(pattern: str, name: str) -> bool:
  """Tests whether the glob matches the whole name."""
  return compile_pattern(pattern).fullmatch(name) is not None


def compile_pattern(pattern: str) -> re.Pattern[str]:
  """The regular expression that a whole name has to match."""
  # Before the cache, which takes no list.
  if not isinstance(pattern, str):
    raise PatternError(f'pattern {pattern!r} is not text')
  return _compiled(pattern)


@functools.lru_cache(maxsize=None)
def _compiled(pattern: str) -> re.Pattern[str]:
  if pattern == '':
    return re.compile('')
  parts = pattern.split('.')
  regex, separator = '', ''
  for i, part in enumerate(parts):
    if part == '**':
      if parts[i - 1:i] == ['**']:
        raise PatternError(f'pattern {pattern!r}: "**" twice in a row')
      if i < len(parts) - 1:
        regex += separator + r'(?:[^.]+\.)*'
        separator = ''
      else:
        regex += r'(?:\.[^.]+)*' if i else '.+'
    else:
      regex += separator + _part(part, pattern)
      separator = r'\.'
  return re.compile(regex, re.DOTALL)


def _part(part: str, pattern: str) -> str:
  """The regular expression of what stands between two dots."""
  regex, depth = '', 0
  characters = iter(part)
  for char in characters:
    if char == _ESCAPE:
      regex += re.escape(next(characters, _ESCAPE))
    elif char in '*?':
      regex += '[^.]' + char.replace('?', '')
    elif char == '{':
      regex, depth = regex + '(?:', depth + 1
    elif char == '}' and depth:
      regex, depth = regex + ')', depth - 1
    elif char == ',' and depth:
      regex += '|'
    elif char in '}[]':
      raise _out_of_place(char, pattern)
    else:
      regex += re.escape(char)
  if depth:
    raise _out_of_place('{', pattern)
  if not part or '**' in part.replace(_ESCAPE + '*', ''):
    raise PatternError(f'pattern {pattern!r}: ' + (
        'an empty part between dots' if not part else
        f'"**" stands for whole parts of the name, not within {part!r}'))
  return regex


def _out_of_place(char: str, pattern: str) -> PatternError:
  return PatternError(
      f'pattern {pattern!r}: {char!r} is out of place; there are *, ?, {{a,b}} '
      'within a part of the name, and ** for whole parts')
