"""Reports as JSON, and back without loss."""

from __future__ import annotations

from collections.abc import Sequence
import dataclasses
import json
import os
import typing
from typing import Any, Union

from ..report import AotReport

FORMAT = 'torch_xla.shardy.aot'
# Goes up with every change to what a report holds: none is read by half.
VERSION = 3
_HINT = 'write one with --json FILE'


class ReportFileError(ValueError):
  """A file that is missing, or holds no reports that can be read."""


def to_json(reports: Sequence[AotReport]) -> str:
  """All reports as one text.

  Raises:
    ValueError: a number in a report is infinite, or none at all.
  """
  return json.dumps(
      {
          'format': FORMAT,
          'version': VERSION,
          'reports': [dataclasses.asdict(report) for report in reports],
      },
      indent=1,
      allow_nan=False) + '\n'


def read(path: Union[str, os.PathLike[str]]) -> tuple[AotReport, ...]:
  """The reports of a file that was written from `to_json`."""
  name = os.fspath(path)
  try:
    with open(path, encoding='utf-8') as f:
      text = f.read()
  except (OSError, UnicodeDecodeError) as e:
    raise ReportFileError(f'report {name}: {e}; {_HINT}') from e
  return from_json(text, name)


def from_json(text: str, name: str) -> tuple[AotReport, ...]:
  """The reports of a text that `to_json` gave.

  Args:
    name: of the file, for messages.
  """
  try:
    data = json.loads(text)
  except (ValueError, RecursionError) as e:
    raise ReportFileError(
        f'report {name} is damaged, no JSON: {e}; {_HINT}') from e
  if not isinstance(data, dict) or data.get('format') != FORMAT:
    raise ReportFileError(f'report {name} is JSON of something else than '
                          f'{FORMAT}; {_HINT}')
  if data.get('version') != VERSION:
    raise ReportFileError(
        f'report {name} is of version {data.get("version")!r}, and this '
        f'torch_xla reads version {VERSION}; {_HINT}')
  try:
    return tuple(_value(AotReport, report) for report in data['reports'])
  except (KeyError, TypeError, ValueError) as e:
    raise ReportFileError(
        f'report {name} is damaged: {type(e).__name__} {e}; {_HINT}') from e


def _value(type_: Any, data: Any) -> Any:
  """Reads `data` as a value of `type_`, a type as `report` uses them."""
  if dataclasses.is_dataclass(type_):
    return type_(
        **{
            name: _value(field_type, data[name])
            for name, field_type in typing.get_type_hints(type_).items()
        })
  origin, arguments = typing.get_origin(type_), typing.get_args(type_)
  if origin is Union:  # Optional.
    return None if data is None else _value(arguments[0], data)
  if origin is tuple:
    if arguments[-1] is Ellipsis:
      arguments = (arguments[0],) * len(data)
    return tuple(
        _value(t, element) for t, element in zip(arguments, data, strict=True))
  return data
