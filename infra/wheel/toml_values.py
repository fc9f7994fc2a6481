"""Reads files of TOML into dataclasses, whose fields are the keys."""

from __future__ import annotations

import dataclasses
from pathlib import Path
import tomllib
from typing import Any, get_args, get_origin, get_type_hints, TypeVar

from infra.errors import BuildError

T = TypeVar('T')


def load(kind: type[T], path: Path, /, **others: Any) -> T:
  """The dataclass `kind` that a file is.

  Args:
    kind: its fields are texts, `Literal` ones, dicts, such dataclasses, or tuples
      of texts or of dataclasses. One may have its key in its metadata.
    path: the file.
    others: fields that are no keys.

  Raises:
    BuildError: it cannot be read, or has a key or value that cannot be. The text
      begins with the key, and names the remedy.
  """
  try:
    # Some editors begin a file with a byte order mark.
    table = tomllib.loads(path.read_text(encoding='utf-8-sig'))
  except tomllib.TOMLDecodeError as error:
    raise BuildError(f'{error}: correct it, it is no TOML') from error
  except (OSError, UnicodeDecodeError) as error:
    raise BuildError(f'cannot be read: {error}') from error
  return _record(kind, table, '', others)


def _record(kind: type[T], table: dict[str, Any], where: str,
            values: dict[str, Any]) -> T:
  hints = get_type_hints(kind)
  fields = {
      field.metadata.get('key', field.name): field
      for field in dataclasses.fields(kind)
      if field.name not in values
  }
  for key in table:
    if key not in fields:
      raise BuildError(f'{where}{key}: there is no such key; there are '
                       f'{", ".join(fields)}')
  for key, field in fields.items():
    if key in table:
      values[field.name] = _value(hints[field.name], table[key], where + key)
    elif field.default is field.default_factory is dataclasses.MISSING:
      raise BuildError(f'{where}{key} is missing: add it')
  return kind(**values)


def _value(hint: Any, value: Any, key: str) -> Any:
  """Checks the value of a key, and makes it what the field holds."""
  if type(None) in get_args(hint):
    hint = get_args(hint)[0]
  kinds = get_args(hint)
  if get_origin(hint) is tuple and kinds[0] is str:
    if not isinstance(value, list) or not all(
        isinstance(v, str) for v in value):
      raise BuildError(f'{key}: it has to be a list of texts, as in ["a", "b"]')
    for text in value:
      if value.count(text) > 1:
        raise BuildError(f'{key}: {text!r} stands there twice: take one away')
    return tuple(value)
  if get_origin(hint) is tuple:
    if not isinstance(value, list) or not all(
        isinstance(v, dict) for v in value):
      raise BuildError(f'{key}: it has to be a list of tables, [[{key}]]')
    return tuple(
        _record(kinds[0], v, f'{v.get("name", key)}.', {}) for v in value)
  if dataclasses.is_dataclass(hint) or get_origin(hint) is dict:
    if not isinstance(value, dict):
      raise BuildError(f'{key}: it has to be a table, [{key}]')
    return value if kinds else _record(hint, value, f'{key}.', {})
  if not isinstance(value, str) or not value:
    raise BuildError(f'{key}: it has to be a text, in quotes')
  if kinds and value not in kinds:
    raise BuildError(f'{key}: {value!r} is not one of {", ".join(kinds)}')
  return value
