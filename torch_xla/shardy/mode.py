"""The mode: how programs change on the way to the compiler."""

from __future__ import annotations

from collections.abc import Mapping
import enum
import re

from .errors import TooLateError

# Spellings that torch_xla's own flags take for true (`xu.check_env_flag`).
_TRUE = frozenset(('ON', '1', 'YES', 'TRUE', 'Y'))

# `CONVERT_SHLO_TO_SHARDY` is upstream's name for the same wish.
SHARDY_VARIABLES = ('XLA_USE_SHARDY', 'CONVERT_SHLO_TO_SHARDY')
V2_VARIABLE = 'XLA_SHARDING_V2'


class Mode(enum.Enum):
  """The lowering of programs before the backend compiles them.

  OFF: not at all; the process runs what the official wheel would run.
  V2: shardings in V2 form, GSPMD partitions.
  SHARDY: shardings in V2 form, Shardy partitions.
  """
  OFF = 'off'
  V2 = 'v2'
  SHARDY = 'shardy'


def mode_from_environment(environ: Mapping[str, str]) -> Mode:
  """The mode that `environ` asks for; Shardy where it asks for both."""

  def is_set(name: str) -> bool:
    return environ.get(name, '').upper() in _TRUE

  if any(is_set(name) for name in SHARDY_VARIABLES):
    return Mode.SHARDY
  return Mode.V2 if is_set(V2_VARIABLE) else Mode.OFF


def leaves_as_stablehlo(environ: Mapping[str, str]) -> bool:
  """Tests whether `_XLAC` converts programs before it hands them over.

  It asks at each compile, and reads the text as its `GetEnvBool` does.
  """
  text = environ.get('XLA_STABLEHLO_COMPILE')
  if text in (None, 'true', 'false'):
    return text == 'true'
  number = re.match(r'\s*[+-]?\d+', text, re.ASCII)
  return number is not None and int(number.group()) != 0


class ModeSetting:
  """The mode of a process, until something depends on it."""

  def __init__(self):
    self.mode = Mode.OFF
    self._settled_by = ''

  def freeze(self, dependent: str) -> None:
    """Freezes the mode, as `dependent` depends on it."""
    self._settled_by = dependent

  def check_unsettled(self, new_mode: Mode) -> None:
    """Checks that the mode can still be switched."""
    if self._settled_by:
      raise TooLateError(
          f'cannot switch to mode {new_mode.value!r}: {self._settled_by} was '
          'set up for the mode before; switch first')


# The mode of this process.
setting = ModeSetting()


def current_mode() -> Mode:
  """The mode that this process runs in."""
  return setting.mode


def freeze(dependent: str) -> None:
  """Freezes this process's mode."""
  setting.freeze(dependent)
