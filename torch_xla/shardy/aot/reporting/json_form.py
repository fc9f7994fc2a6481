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
VERSION = 2
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
    reports = _value(tuple[AotReport, ...], data.get('reports'), 'reports')
    for i, report in enumerate(reports):
      _check_positions(report, f'reports[{i}]')
    return reports
  except _Misfit as e:
    raise ReportFileError(f'report {name} is damaged: {e}; {_HINT}') from e


class _Misfit(ValueError):
  """JSON that is not what a type asks for."""


def _value(type_: Any, data: Any, where: str) -> Any:
  """Reads `data` as a value of `type_`, a type as `report` uses them."""
  if dataclasses.is_dataclass(type_):
    return _dataclass(type_, data, where)
  origin, arguments = typing.get_origin(type_), typing.get_args(type_)
  if origin is Union:  # Optional.
    return None if data is None else _value(arguments[0], data, where)
  if origin is tuple:
    return _tuple(arguments, data, where)
  # A float may be written as 3; True is an int to Python, and not here.
  allowed = (int, float) if type_ is float else type_
  if not isinstance(data, allowed) or (isinstance(data, bool) and
                                       type_ is not bool):
    raise _Misfit(f'{where} is {json.dumps(data)[:40]}, and has to be '
                  f'{type_.__name__}')
  return data


def _check_positions(report: AotReport, where: str) -> None:
  count = len(report.programs)
  steps = (report.usual_step, *(kind for kind, _ in report.other_steps))
  if not all(0 <= position < count for step in steps for position in step):
    raise _Misfit(f'{where}.usual_step is {list(report.usual_step)}, and there '
                  f'are {count} programs')


def _dataclass(type_: Any, data: Any, where: str) -> Any:
  if not isinstance(data, dict):
    raise _Misfit(f'{where} is no object')
  types = typing.get_type_hints(type_)
  for name in {*types, *data}:
    if name not in data:
      raise _Misfit(f'{where} has no {name!r}')
    if name not in types:
      raise _Misfit(f'{where} has {name!r}, which nothing is known of')
  return type_(**{
      name: _value(t, data[name], f'{where}.{name}')
      for name, t in types.items()
  })


def _tuple(arguments: tuple[Any, ...], data: Any, where: str) -> Any:
  if not isinstance(data, list):
    raise _Misfit(f'{where} is no list')
  if arguments[-1] is Ellipsis:
    arguments = (arguments[0],) * len(data)
  if len(data) != len(arguments):
    raise _Misfit(f'{where} has {len(data)} elements, not {len(arguments)}')
  return tuple(
      _value(t, element, f'{where}[{i}]')
      for i, (t, element) in enumerate(zip(arguments, data)))
