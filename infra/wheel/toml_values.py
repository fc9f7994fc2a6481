"""Reads values out of a TOML table; what is wrong is named by its key.

Each function but the first takes the table and, as `where`, what stands before
its keys, as in 'plugin.'. It raises a BuildError whose text begins with the key.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
import tomllib
from typing import Any

from infra.errors import BuildError

Table = Mapping[str, Any]


def table_of(text: str) -> dict[str, Any]:
  """The table that a text is.

  Raises:
    BuildError: it is no TOML.
  """
  try:
    return tomllib.loads(text)
  except tomllib.TOMLDecodeError as error:
    raise BuildError(f'{error}: correct it, it is no TOML') from error


def check_keys(table: Table,
               known: Collection[str],
               needed: Collection[str] = (),
               where: str = '') -> None:
  """Checks that a table has no keys but the known ones, and all needed ones."""
  for key in table:
    if key not in known:
      raise BuildError(f'{where}{key}: there is no such key; there are '
                       f'{", ".join(known)}')
  for key in needed:
    if key not in table:
      raise BuildError(f'{where}{key} is missing: add it')


def subtable(table: Table, key: str, where: str = '') -> Table:
  """A table in a table; empty if it is not there."""
  value = table.get(key, {})
  if not isinstance(value, dict):
    raise BuildError(f'{where}{key}: it has to be a table, [{where}{key}]')
  return value


def tables(table: Table, key: str) -> list[Table]:
  """A list of tables; empty if it is not there."""
  value = table.get(key, [])
  if not isinstance(value, list) or not all(isinstance(v, dict) for v in value):
    raise BuildError(f'{key}: it has to be a list of tables, [[{key}]]')
  return value


def text(table: Table,
         key: str,
         default: str | None = None,
         where: str = '') -> str:
  """A text that is not empty; one without a default has to be there."""
  if key not in table and default is not None:
    return default
  value = table[key]
  if not isinstance(value, str) or not value:
    raise BuildError(f'{where}{key}: it has to be a text, in quotes')
  return value


def choice(table: Table,
           key: str,
           choices: Collection[str],
           default: str,
           where: str = '') -> str:
  """One of some texts, or the default."""
  value = text(table, key, default, where)
  if key in table and value not in choices:
    raise BuildError(f'{where}{key}: {value!r} is not one of '
                     f'{", ".join(choices)}')
  return value


def texts(table: Table, key: str) -> tuple[str, ...]:
  """A list of texts, none of them twice; empty if it is not there."""
  items = table.get(key, [])
  if not isinstance(items, list) or not all(isinstance(v, str) for v in items):
    raise BuildError(f'{key}: it has to be a list of texts, as in ["a", "b"]')
  for value in items:
    if items.count(value) > 1:
      raise BuildError(f'{key}: {value!r} stands there twice: take one away')
  return tuple(items)
