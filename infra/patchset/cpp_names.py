"""Finds what one C++ file defines twice, without a compiler.

A compiler would need the headers of XLA, which no checkout has. This reads a
file's own text: functions with a body at namespace scope, and what the body of
a class declares. Two functions are one if scope, name, parameter types as
written, template prefix and qualifiers are. It does not expand macros, takes
the first branch of `#if` alone, and knows no two spellings of one type.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
import re

_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<directive>^[ \t]*\#(?:[^\n\\]|\\.)*)
    |(?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]*)\(.*?\)(?P=mark)")
    |(?P<text>(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<word>[A-Za-z_]\w*)
    |(?P<number>\.?\d(?:[\w.]|'\w|(?<=[eE])[+-])*)
    |(?P<sign>::|->|.)""", re.DOTALL | re.MULTILINE | re.VERBOSE)
_CLASSES = {'class', 'struct', 'union'}
_ACCESS = {'public', 'protected', 'private'}
_TYPES = {
    'auto', 'bool', 'char', 'const', 'double', 'float', 'int', 'long', 'short',
    'signed', 'unsigned', 'void', 'volatile'
}
_PREFIXES = {'struct', 'class', 'enum', 'typename', 'const', 'volatile'}
# What declares nothing that could stand there twice.
_OTHER = {
    'using', 'typedef', 'friend', 'static_assert', 'extern', 'template',
    'namespace', 'enum', *_CLASSES
}
_OPEN = {'(': ')', '{': '}', '[': ']'}

Tokens = Sequence[str]


def names_twice(text: str) -> Counter[str]:
  """How often each name stands in a file that stands there more than once."""
  found = Counter(_scope(_Reader(_tokens(text)), '', False))
  return Counter({name: count for name, count in found.items() if count > 1})


def test_names(text: str) -> list[str]:
  """The tests of a file of googletest's."""
  found = re.findall(r'(?m)^TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\s*\)', text)
  return [f'{suite}.{name}' for suite, name in found]


class _Reader:
  """Tokens, one after the other."""

  def __init__(self, tokens: list[str]):
    self.tokens = tokens
    self.at = 0

  def __iter__(self) -> Iterator[str]:
    while self.at < len(self.tokens):
      self.at += 1
      yield self.tokens[self.at - 1]

  def block(self) -> None:
    """Goes on behind the brace that closes the one before."""
    self.at = _closing(self.tokens, self.at - 1) + 1


def _tokens(text: str) -> list[str]:
  """The tokens of a file, of `#if` the first branch that can hold."""
  tokens: list[str] = []
  skipping: list[bool] = []  # One per open #if.
  for match in _TOKEN.finditer(text):
    if match.lastgroup == 'directive':
      directive = match[0].strip()[1:].split()[:2]
      if directive[:1] in (['if'], ['ifdef'], ['ifndef']):
        skipping.append(directive == ['if', '0'])
      elif directive[:1] in (['else'], ['elif']) and skipping:
        skipping[-1] = not skipping[-1]
      elif directive[:1] == ['endif'] and skipping:
        skipping.pop()
    elif match.lastgroup != 'skip' and not any(skipping):
      tokens.append('""' if match['raw'] else match[0])
  return tokens


def _scope(reader: _Reader, name: str, in_class: bool) -> Iterator[str]:
  """What a namespace or class defines, up to its closing brace."""
  head: list[str] = []
  for token in reader:
    if token == '}':
      return
    if token == ':' and in_class and len(head) == 1 and head[0] in _ACCESS:
      head = []
    elif token == ';':
      if in_class:
        yield from _declared(head, name)
      head = []
    elif token != '{':
      head.append(token)
    else:
      inner = _inner_scope(head)
      if inner is not None:
        kind, of = inner
        yield from _scope(reader, f'{name}::{of}' if of else name, kind
                          in _CLASSES)
        # A class ends with a semicolon, maybe behind a variable.
        head = ['using'] if kind in _CLASSES else []
      elif _is_function(head):
        reader.block()
        yield from _defined(head, name, in_class)
        head = []
      else:
        reader.block()
        head += ['{', '}']


def _inner_scope(head: Tokens) -> tuple[str, str] | None:
  """Kind and name of the namespace or class that a head opens."""
  head = _without_template(head)[1]
  words = [w for w in head if w != 'inline']
  if words[:1] == ['namespace']:
    return 'namespace', ''.join(words[1:]) or '(unnamed)'
  if head[:1] == ['extern'] and len(head) == 2:
    return 'extern', ''
  if not head or head[0] not in _CLASSES or '(' in head or '=' in head:
    return None
  names = head[1:head.index(':')] if ':' in head else head[1:]
  return head[0], ''.join(w for w in names if w != 'final')


def _is_function(head: Tokens) -> bool:
  """Whether the brace behind a head opens the body of a function."""
  head = _without_template(head)[1]
  at = _parameters(head)
  if any(head.count(sign) != head.count(_OPEN[sign]) for sign in '(['):
    return False  # It is inside an argument.
  if at is None or head[0] in ('enum', 'using', 'typedef'):
    return False
  behind = head[_closing(head, at) + 1:]
  # Members that are initialised in braces stand before a constructor's body.
  return not (':' in behind and re.match(r'\w|>', behind[-1]))


def _defined(head: Tokens, scope: str, in_class: bool) -> Iterator[str]:
  """What a function with a body defines."""
  signature = _signature(head, scope)
  # A member that its class declares is defined outside of it. A macro, but for
  # a test, may well stand there again.
  if in_class:
    yield f'{signature} in its class'
  elif not re.match(r'.*?(?:^|:)(?!TEST)[A-Z][A-Z0-9_]+\(', signature):
    yield signature


def _declared(head: Tokens, scope: str) -> Iterator[str]:
  """What a statement in a class declares."""
  template, rest = _without_template(head)
  if not rest or rest[0] in _OTHER:
    return
  if _parameters(rest) is not None:
    yield f'{_signature([*template, *rest], scope)} in its class'
    return
  end = min(rest.index(w) if w in rest else len(rest) for w in '={[:')
  if end > 1 and re.match(r'[A-Za-z_]', rest[end - 1]):
    yield f'{scope}::{rest[end - 1]} in its class'.removeprefix('::')


def _signature(head: Tokens, scope: str) -> str:
  """Name, parameter types and qualifiers of a function."""
  template, rest = _without_template(head)
  at = _parameters(rest)
  assert at is not None
  start = at
  while start and (rest[start - 1] in ('::', '~') or
                   re.match(r'\w', rest[start - 1]) and
                   (start == at or rest[start] in ('::', '~'))):
    start -= 1
  if 'operator' in rest[:at]:
    start = rest.index('operator')
  end = _closing(rest, at)
  behind = list(rest[end + 1:])
  for word in ':', '=', 'override', 'final', 'noexcept':
    if word in behind:
      behind = behind[:behind.index(word)]
  types = ', '.join(map(_type_of, _split(rest[at + 1:end])))
  # A template's result can be what tells it from another one.
  result = ' '.join([*template, *rest[:start]]) + ' ' if template else ''
  name = ''.join(rest[start:at])
  full = f'{scope}::{name}'.removeprefix('::')
  return f'{result}{full}({types}){" ".join(["", *behind])}'


def _parameters(head: Tokens) -> int | None:
  """Where the parameters of a function begin; None if a head has none."""
  at = 0
  while at < len(head):
    token = head[at]
    if token == 'operator':
      at += 2
      while at < len(head) and head[at] != '(':
        at += 1
      return at if at < len(head) else None
    if token == '(':
      return at if at and re.match(r'\w|>', head[at - 1]) else None
    if token == '=':
      return None
    if token == '<' and at:
      at = _closing_angle(head, at)
    elif token in _OPEN:
      at = _closing(head, at)
    at += 1
  return None


def _without_template(head: Tokens) -> tuple[Tokens, Tokens]:
  """The `template <...>` before a head, and the head."""
  end = 0
  while head[end:end + 2] == ['template', '<']:
    end = _closing_angle(head, end + 1) + 1
  return head[:end], head[end:]


def _type_of(parameter: Tokens) -> str:
  """The type of a parameter, without its name and default."""
  words = list(parameter)
  if '=' in words:
    words = words[:words.index('=')]
  before = [w for w in words[:-1] if w not in _PREFIXES]
  named = (
      before and re.match(r'[A-Za-z_]', words[-1]) and
      words[-1] not in _TYPES and before[-1] != '::')
  return ' '.join(words[:-1] if named else words)


def _split(tokens: Tokens) -> list[list[str]]:
  """Parameters, at the commas between them."""
  parts: list[list[str]] = [[]]
  at = 0
  while at < len(tokens):
    end = at
    if tokens[at] in _OPEN:
      end = _closing(tokens, at)
    elif tokens[at] == '<':
      end = _closing_angle(tokens, at)
    if tokens[at] == ',':
      parts.append([])
    else:
      parts[-1] += tokens[at:end + 1]
    at = end + 1
  return parts if parts != [[]] else []


def _closing(tokens: Tokens, at: int) -> int:
  """Where the bracket closes that opens at a token, or the end."""
  opening, closing = tokens[at], _OPEN[tokens[at]]
  depth = 0
  for place in range(at, len(tokens)):
    depth += (tokens[place] == opening) - (tokens[place] == closing)
    if not depth:
      return place
  return len(tokens) - 1


def _closing_angle(tokens: Tokens, at: int) -> int:
  """Where `<` closes; itself if it is no bracket."""
  depth, place = 0, at
  while place < len(tokens):
    token = tokens[place]
    if token in '({[':
      place = _closing(tokens, place)
    elif token in ')}];':
      return at
    depth += (token == '<') - (token == '>')
    if not depth:
      return place
    place += 1
  return at
