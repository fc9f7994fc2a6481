"""The differences of two audits, by cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
import json
import textwrap

from torch_xla.shardy.gate import golden as golden_file
from torch_xla.shardy.gate.golden import Change, Golden, GoldenFileError

from . import golden
from .report import SCHEMA

_WIDTH = 80


def text(old: str, new: str) -> tuple[str, int]:
  """The differences, for people, and the exit status.

  Args:
    old, new: files that `--json` or `--update-golden` wrote. Only the sections
      that both have are compared.

  Raises:
    GoldenFileError: one of them cannot be read.
  """
  found = golden_file.changes(_read(old), _read(new))
  return '\n'.join([f'{old} -> {new}', *lines(found)]), int(bool(found))


def _read(path: str) -> Golden:
  """A golden file, or what one of a report would hold."""
  try:
    with open(path, encoding='utf-8') as f:
      data = json.load(f)
    if isinstance(data, dict) and data.get('schema') == SCHEMA:
      return golden.of_report(data)
  except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
    raise GoldenFileError(f'audit {path} cannot be read: {e}') from e
  return golden_file.read(path, golden.TOOL)


def lines(changes: Sequence[Change]) -> Iterator[str]:
  """The changes by section and cause, layers folded, in 80 columns."""
  causes = golden_file.grouped(changes)
  for section in dict.fromkeys(cause.section for cause in causes):
    yield section
    for cause in causes:
      if cause.section == section:
        yield from textwrap.wrap(
            str(cause),
            _WIDTH,
            initial_indent='  ',
            subsequent_indent='    ',
            break_on_hyphens=False)
  yield (f'{len(changes)} difference(s), by {len(causes)} cause(s)'
         if changes else 'no differences')
