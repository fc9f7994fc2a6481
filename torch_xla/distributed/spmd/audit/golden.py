"""Compares a report with one that was kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
import json
import os
from typing import Any, Union

from .report import Difference, Kind, AuditReport

_ABSENT = object()
# More than this of one value is not shown.
_SHOWN = 120


class GoldenFileError(ValueError):
  """A golden file that is missing, or is none."""


def read(path: Union[str, os.PathLike]) -> Mapping[str, Any]:
  """The golden file's report.

  Raises:
    GoldenFileError: it cannot be read, or is not an audit's JSON.
  """
  name = os.fspath(path)
  hint = 'write one with --json FILE (or report.to_json()) and keep that'
  try:
    with open(path, encoding='utf-8') as f:
      data = json.load(f)
  except (OSError, ValueError) as e:
    raise GoldenFileError(f'golden file {name}: {e}; {hint}') from e
  if not isinstance(data, dict) or 'schema' not in data:
    raise GoldenFileError(f'golden file {name} is not the JSON of an audit; '
                          f'{hint}')
  return data


def compare(report: AuditReport,
            golden: Mapping[str, Any]) -> tuple[Difference, ...]:
  """Each value that is not what it was; differences themselves are not one."""
  # Through JSON: what was a tuple is a list there.
  now = json.loads(report.to_json())
  return tuple(
      Difference(Kind.GOLDEN, path, f'it was {_show(was)}, and is {_show(is_)}')
      for path, was, is_ in _changes('', _without_verdict(golden),
                                     _without_verdict(now)))


def _without_verdict(data: Mapping[str, Any]) -> dict[str, Any]:
  return {k: v for k, v in data.items() if k != 'differences'}


def _changes(path: str, was: Any, is_: Any) -> Iterator[tuple[str, Any, Any]]:
  if isinstance(was, dict) and isinstance(is_, dict):
    for key in sorted({*was, *is_}):
      yield from _changes(f'{path} / {key}' if path else key,
                          was.get(key, _ABSENT), is_.get(key, _ABSENT))
  elif isinstance(was, list) and isinstance(is_, list) and any(
      isinstance(v, (dict, list)) for v in (*was, *is_)):
    for i in range(max(len(was), len(is_))):
      yield from _changes(f'{path} / {i}', was[i] if i < len(was) else _ABSENT,
                          is_[i] if i < len(is_) else _ABSENT)
  elif was != is_:
    yield path, was, is_


def _show(value: Any) -> str:
  if value is _ABSENT:
    return 'absent'
  text = json.dumps(value, sort_keys=True)
  return text if len(text) <= _SHOWN else text[:_SHOWN] + '...'
