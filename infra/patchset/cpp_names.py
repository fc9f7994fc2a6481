"""Finds what one C++ file defines twice, without a compiler.

A compiler would need the headers of XLA, which no checkout has. This reads a
file's own text: functions with a body at namespace scope, and what the body of
a class declares. Two functions are one if scope, name, parameter types as
written, template prefix and qualifiers are. It does not expand macros, takes
the first branch of `#if` alone, knows no two spellings of one type, and may
not see what a macro makes unlike C++.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
import re
from typing import TYPE_CHECKING

from infra.errors import BuildError

if TYPE_CHECKING:
  from tree_sitter import Node

_CLASSES = ('class_specifier', 'struct_specifier', 'union_specifier')
# What may hold definitions of the scope that it stands in.
_HOLDERS = ('declaration_list', 'linkage_specification', 'ERROR')
_MEMBERS = ('declaration', 'field_declaration')
_NAMES = ('identifier', 'field_identifier')
_QUALIFIERS = ('type_qualifier', 'ref_qualifier', 'requires_clause')


def names_twice(text: str) -> Counter[str]:
  """How often each name stands in a file that stands there more than once.

  Raises:
    BuildError: the parser is not installed.
  """
  try:
    import tree_sitter
    import tree_sitter_cpp
  except ImportError as error:
    raise BuildError(
        f'there is no {error.name}, which reads C++: run this with '
        '.venv/bin/python, which infra/test.sh sets up') from None
  cpp = tree_sitter.Language(tree_sitter_cpp.language())
  tree = tree_sitter.Parser(cpp).parse(_first_branches(text).encode())
  found = Counter(_defined(tree.root_node, '', '', False))
  return Counter({name: count for name, count in found.items() if count > 1})


def test_names(text: str) -> list[str]:
  """The tests of a file of googletest's."""
  found = re.findall(r'(?m)^TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\s*\)', text)
  return [f'{suite}.{name}' for suite, name in found]


def _first_branches(text: str) -> str:
  """A file without directives, of `#if` the first branch that can hold."""
  lines: list[str] = []
  skipping: list[bool] = []  # One per open #if.
  for line in text.replace('\\\n', ' ').split('\n'):
    directive = re.match(r'\s*#\s*(\w+)\s*(\S*)', line)
    if not directive:
      lines.append('' if any(skipping) else line)
    elif directive[1] in ('if', 'ifdef', 'ifndef'):
      skipping.append(directive.groups() == ('if', '0'))
    elif directive[1] in ('else', 'elif') and skipping:
      skipping[-1] = not skipping[-1]
    elif directive[1] == 'endif' and skipping:
      skipping.pop()
  # A class may be `class TORCH_API Name`.
  return re.sub(r'\b(class|struct)\s+[A-Z][A-Z0-9_]+(?=\s+\w)', r'\1',
                '\n'.join(lines))


def _defined(node: Node, scope: str, template: str,
             in_class: bool) -> Iterator[str]:
  """What a namespace or class defines, by its body."""
  for child in node.named_children:
    if child.type == 'template_declaration':
      prefix = f'{template}{_written(child.child_by_field_name("parameters"))} '
      yield from _defined(child, scope, prefix, in_class)
    elif child.type in _HOLDERS:
      yield from _defined(child, scope, '', in_class)
    elif child.type == 'function_definition':
      yield from _function(child, scope, template, in_class)
    elif child.type == 'namespace_definition' or child.type in _CLASSES:
      yield from _inside(child, scope)
    elif child.type in _MEMBERS:
      kind = child.child_by_field_name('type')
      if kind is not None and kind.type in _CLASSES:
        yield from _inside(kind, scope)
      if in_class:
        yield from _member(child, scope, template)


def _inside(node: Node, scope: str) -> Iterator[str]:
  """What the body of a namespace or class, if it has one here, defines."""
  body = node.child_by_field_name('body')
  if body is not None:
    name = _written(node.child_by_field_name('name')) or '(unnamed)'
    yield from _defined(body, _join(scope, name), '', node.type in _CLASSES)


def _function(node: Node, scope: str, template: str,
              in_class: bool) -> Iterator[str]:
  """What a function with a body defines."""
  signature = _signature(node, scope, template)
  # A member that its class declares is defined outside of it. A macro, but for
  # a test, may well stand there again.
  if in_class:
    yield f'{signature} in its class'
  elif signature and not re.match(r'.*?(?:^|:)(?!TEST)[A-Z][A-Z0-9_]+\(',
                                  signature):
    yield signature


def _member(node: Node, scope: str, template: str) -> Iterator[str]:
  """What a statement in a class declares."""
  signature = _signature(node, scope, template)
  if signature:
    yield f'{signature} in its class'
    return
  for declarator in node.children_by_field_name('declarator'):
    name = _first(declarator, _NAMES)
    if name is not None:
      yield f'{_join(scope, _written(name))} in its class'


def _signature(node: Node, scope: str, template: str) -> str:
  """Name, parameter types and qualifiers of a function; empty if it is none."""
  declarator = _first(
      node.child_by_field_name('declarator'),
      ('function_declarator', 'operator_cast'))
  if declarator is None:
    return ''
  if declarator.type == 'operator_cast':  # Its type is its name.
    return _join(scope, _written(declarator))
  name = _join(scope, _written(declarator.child_by_field_name('declarator')))
  parameters = declarator.child_by_field_name('parameters').named_children
  types = ', '.join(_type_of(p) for p in parameters if p.type != 'comment')
  behind = ''.join(f' {_written(child)}' for child in declarator.named_children
                   if child.type in _QUALIFIERS)
  # A template's result can be what tells it from another one.
  result = template and (template + _written(node.child_by_field_name('type')) +
                         ' ')
  return f'{result}{name}({types}){behind}'


def _type_of(parameter: Node) -> str:
  """The type of a parameter, without its name and default."""
  name = _first(parameter.child_by_field_name('declarator'), _NAMES)
  default = parameter.child_by_field_name('default_value')
  left_out = [node.byte_range for node in (name, default) if node is not None]
  words = [
      leaf.text.decode()
      for leaf in _leaves(parameter)
      if leaf.type != '=' and not any(start <= leaf.start_byte < end
                                      for start, end in left_out)
  ]
  return ' '.join(words)


def _join(scope: str, name: str) -> str:
  return f'{scope}::{name}'.removeprefix('::')


def _written(node: Node | None) -> str:
  """The words of a part, whatever stands between them."""
  words = _leaves(node) if node is not None else ()
  return re.sub(r'(?<=operator) (?=\W)| ?(?:(::)|(~)) ?', r'\1\2',
                ' '.join(leaf.text.decode() for leaf in words))


def _first(node: Node | None, types: tuple[str, ...]) -> Node | None:
  """The first part, from outside, of one of these types."""
  level = [node] if node is not None else []
  while level:
    for each in level:
      if each.type in types:
        return each
    level = [child for each in level for child in each.named_children]
  return None


def _leaves(node: Node) -> Iterator[Node]:
  if node.type == 'comment':
    return
  if not node.children:
    yield node
  for child in node.children:
    yield from _leaves(child)
