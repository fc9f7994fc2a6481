"""An audit held to the JSON of an earlier one: its golden file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
import json
import os
from typing import Any, Union

from torch_xla.shardy.layers import numbered, steady

from .report import Difference, Kind, OTHER, SCHEMA

# Of one run alone, or changed by any constant: the names of programs that took a
# tensor, how many instructions have a sharding, memory, the smallest collective.
_LEFT_OUT = frozenset(
    ('beside', 'causes', 'memory', 'programs', 'smallest', 'v1', 'v2'))
# More than this of one value is not shown.
_SHOWN = 120


class GoldenFileError(ValueError):
  """A golden file that cannot be used."""


def read(path: Union[str, os.PathLike]) -> dict[str, Any]:
  """Reads the JSON of an earlier audit."""
  try:
    with open(path, encoding='utf-8') as f:
      data = json.load(f)
    if not isinstance(data, dict) or data.get('schema') != SCHEMA:
      raise ValueError(f'it is no report of an audit, schema {SCHEMA}')
    _subjects(data)
    return data
  except (OSError, ValueError, RecursionError, KeyError, TypeError,
          AttributeError) as e:
    raise GoldenFileError(
        f'golden file {os.fspath(path)}: {e}; write one with --json FILE'
    ) from e


def differences(was: Mapping[str, Any],
                now: Mapping[str, Any]) -> Iterator[Difference]:
  """The differences of two reports, each of `Report.to_dict`."""
  before, after = _subjects(was), _subjects(now)
  for name in dict.fromkeys([*before, *after]):
    if name not in after or name not in before:
      yield Difference(Kind.GOLDEN, name,
                       'it is new' if name in after else 'it is gone')
      continue
    for field in dict.fromkeys([*before[name], *after[name]]):
      texts = [side[name].get(field, 'absent') for side in (before, after)]
      if texts[0] != texts[1]:
        yield Difference(Kind.GOLDEN, name, _change(field, *texts))


def _subjects(data: Mapping[str, Any]) -> dict[str, dict[str, str]]:
  """What is compared, as text, by subject and field."""
  names = ('mode', 'policy', 'mesh', 'devices', 'totals')
  rows = {'the model': {name: data[name] for name in names}}
  # What else a script leaves alive is not the model's.
  rows.update(
      (held['sort'], held) for held in data['held'] if held['sort'] != OTHER)
  rows.update(data['tensors'])
  for row in data['boundaries']:
    output = '' if row['output'] is None else f' [{row["output"]}]'
    rows[f'boundary {row["module"]}{output}'] = row
  programs = data['programs'] or ()
  rows.update(zip(numbered(row['name'] for row in programs), programs))
  return {
      subject: {
          field: json.dumps(_plain(field, value), sort_keys=True)
          for field, value in row.items()
          if field not in _LEFT_OUT and field != 'name'
      } for subject, row in rows.items()
  }


def _plain(field: str, value: Any) -> Any:
  if isinstance(value, str):
    return steady(value)
  if field == 'constrained':  # By how many instructions does not matter.
    return bool(value)
  if isinstance(value, (list, tuple)):
    return [_plain('', element) for element in value]
  return {
      name: _plain(name, inner)
      for name, inner in value.items()
      if name not in _LEFT_OUT
  } if isinstance(value, dict) else value


def _change(field: str, was: str, now: str) -> str:
  # Long ones are shown where they begin to differ.
  start = max(0, len(os.path.commonprefix([was, now])) - _SHOWN // 4)
  was, now = (
      text if len(text) <= _SHOWN else '...' * bool(start) +
      text[start:start + _SHOWN] + '...' for text in (was, now))
  return f'{field}: it was {was}, and is {now}'
