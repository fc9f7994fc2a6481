"""Colours, where whoever reads wants them."""

from __future__ import annotations

import os
import re
import sys
from typing import Optional, TextIO

_BOLD, _RED, _YELLOW, _GREEN = '1', '1;31', '33', '32'
_STYLES = {
    'error': _RED,
    'FAILED': _RED,
    'warning': _YELLOW,
    'stale': _YELLOW,
    'ok': _GREEN,
    'conforms': _GREEN,
}
# How a report's line begins that says how something stands.
_STATUS = re.compile(rf'^({"|".join(_STYLES)})\b(?!,)', re.MULTILINE)


def has_colours(stream: Optional[TextIO]) -> bool:
  """Tests whether to write in colours.

  As https://no-color.org has it; FORCE_COLOR=1 is for CI systems.
  """
  if stream is None or os.environ.get('NO_COLOR'):
    return False
  if os.environ.get('FORCE_COLOR'):
    return True
  return stream.isatty() and os.environ.get('TERM') != 'dumb'


def bold(text: str, stream: Optional[TextIO]) -> str:
  return _styled(text, _BOLD) if has_colours(stream) else text


def painted(text: str, stream: Optional[TextIO]) -> str:
  """A report, with the words coloured that say how things stand."""
  if not has_colours(stream):
    return text
  return _STATUS.sub(lambda m: _styled(m[1], _STYLES[m[1]]), text)


def show(text: str, stream: Optional[TextIO] = None) -> None:
  """Prints a report; a closed pipe is not an error.

  Args:
    stream: standard output by default.
  """
  stream = stream or sys.stdout
  if stream is None:
    return
  # A plugin's or a script's words may not be in the terminal's character set.
  getattr(stream, 'reconfigure', lambda **_: None)(errors='backslashreplace')
  try:
    print(painted(text, stream), file=stream, flush=True)
  except OSError:
    # Python would try again at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _styled(text: str, style: str) -> str:
  return f'\033[{style}m{text}\033[0m'
