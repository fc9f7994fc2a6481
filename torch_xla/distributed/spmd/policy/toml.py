"""A sharding policy as TOML, and back.

  default = "replicated"         # Without it an unclaimed tensor is an error.

  [[rule]]
  pattern = "blocks.*.up.weight"
  spec = ["model", "-"]          # "-": not split; a list: several axes.
  priority = [0, "-"]            # "-": none for this dimension.
  propagate = [true, "-"]        # Likewise; or true, or false, for all.
  uneven = true                  # A size may not divide by its axes.

  [[rule]]
  pattern = "**.bias"
  spec = "replicated"

  [[boundary]]
  module = "blocks.*"
  spec = ["data", "-", ["model", "expert"]]
  output = 0                     # Or a name: "last_hidden_state".

TOML has no null, so "-" stands for None; no mesh axis can have that name here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import dataclasses
import json
from typing import Any, Optional, Union

from torch_xla.shardy.annotate.constraint_words import PropagateError
from torch_xla.shardy.annotate.priority import PriorityError

from .patterns import PolicyError, RuleError
from .rules import axes_of, Boundary, REPLICATED, Replicated, Rule

_NONE = '-'
_REPLICATED = REPLICATED.value


class PolicyTextError(PolicyError):
  """TOML that does not say a policy: names the place."""


def dump(rules: Sequence[Rule], boundaries: Sequence[Boundary],
         default: Optional[Replicated]) -> str:
  """The TOML of a policy; `parse` reads it back.

  Raises:
    PolicyTextError: a mesh axis named '-'.
  """
  tables = [] if default is None else [
      f'default = {_string(default.value)}\n',
  ]
  for rule in rules:
    tables.append(f'[[rule]]\npattern = {_string(rule.pattern)}\n' +
                  _spec_lines(rule) + 'uneven = true\n' * rule.uneven)
  for boundary in boundaries:
    output = ('' if boundary.output is None else 'output = ' +
              (_string(boundary.output) if isinstance(boundary.output, str) else
               str(boundary.output)) + '\n')
    tables.append(f'[[boundary]]\nmodule = {_string(boundary.module)}\n' +
                  _spec_lines(boundary) + output)
  return '\n'.join(tables)


def parse(
    text: str
) -> tuple[tuple[Rule, ...], tuple[Boundary, ...], Optional[Replicated]]:
  """Rules, boundaries and default in a TOML text."""
  toml = _toml()
  try:
    data = toml.loads(text)
  except toml.TOMLDecodeError as e:
    raise PolicyTextError(f'this is no TOML: {e}') from e
  _check_keys(data, 'the policy', ('default', 'rule', 'boundary'))
  default = data.get('default')
  if default not in (None, _REPLICATED):
    raise PolicyTextError(
        f'default = {default!r}: there is only "{_REPLICATED}"')
  return (_parse_tables(Rule, data), _parse_tables(Boundary, data),
          None if default is None else REPLICATED)


def _toml() -> Any:
  try:
    import tomllib
  except ImportError:  # Python 3.10.
    try:
      import tomli as tomllib
    except ImportError as e:
      raise PolicyError('reading a policy from TOML needs Python 3.11, or the '
                        'package tomli: pip install tomli') from e
  return tomllib


def _spec_lines(rule: Union[Rule, Boundary]) -> str:
  spec = rule.spec
  if spec is REPLICATED:
    return f'spec = {_string(_REPLICATED)}\n'
  entries = []
  for entry in spec:
    axes = axes_of(entry)
    if _NONE in axes:
      raise PolicyTextError(f'a mesh axis named "{_NONE}" cannot be written: '
                            'that is how TOML says None here')
    texts = [_string(axis) for axis in axes]
    entries.append(
        _string(_NONE) if not texts else texts[0] if len(texts) ==
        1 else f'[{", ".join(texts)}]')
  lines = f'spec = [{", ".join(entries)}]\n'
  for word in ('priority', 'propagate'):
    if (entries := getattr(rule, word)) is not None:
      texts = (_string(_NONE) if e is None else str(e).lower() for e in entries)
      lines += f'{word} = [{", ".join(texts)}]\n'
  return lines


def _string(text: str) -> str:
  """A TOML basic string; its escapes are JSON's, and DEL needs one too."""
  return json.dumps(text, ensure_ascii=False).replace('\x7f', '\\u007f')


def _parse_tables(cls: type, data: Mapping[str, Any]) -> tuple[Any, ...]:
  key = cls.__name__.lower()
  tables = data.get(key, [])
  if not isinstance(tables, list) or not all(
      isinstance(t, dict) for t in tables):
    raise PolicyTextError(f'write each {key} under a [[{key}]] of its own')
  return tuple(
      _parse_table(cls, table, f'{key} {i}')
      for i, table in enumerate(tables, 1))


def _check_keys(table: Mapping[str, Any], subject: str,
                known: Sequence[str]) -> None:
  if unknown := sorted(set(table) - set(known)):
    raise PolicyTextError(f'{subject}: {unknown[0]!r} is not known; there is '
                          f'{", ".join(known)}')


def _parse_table(cls: type, table: Mapping[str, Any], subject: str) -> Any:
  key, _, *others = known = [field.name for field in dataclasses.fields(cls)]
  _check_keys(table, subject, known)
  if missing := [k for k in (key, 'spec') if k not in table]:
    raise PolicyTextError(f'{subject}: {missing[0]} is missing')
  spec = table['spec']
  if spec == _REPLICATED:
    spec = REPLICATED
  elif isinstance(spec, list):
    spec = tuple(None if e == _NONE else tuple(e) if isinstance(e, list) else e
                 for e in spec)
  optional = {k: table[k] for k in others if k in table}
  for word in ('priority', 'propagate'):
    if isinstance(optional.get(word), list):
      optional[word] = tuple(None if e == _NONE else e for e in optional[word])
  try:
    return cls(table[key], spec, **optional)
  except (RuleError, PriorityError, PropagateError) as e:
    raise PolicyTextError(f'{subject}: {e}') from e
