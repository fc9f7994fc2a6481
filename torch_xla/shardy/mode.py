"""What the fork does to a program on its way to the compiler."""

import enum
from typing import Mapping

# Spellings that torch_xla's own flags take for true (`xu.check_env_flag`).
_TRUE = frozenset(('ON', '1', 'YES', 'TRUE', 'Y'))

# `CONVERT_SHLO_TO_SHARDY` is upstream's name for the same wish.
SHARDY_VARIABLES = ('XLA_USE_SHARDY', 'CONVERT_SHLO_TO_SHARDY')
V2_VARIABLE = 'XLA_SHARDING_V2'


class Mode(enum.Enum):
  """How far programs are lowered before the backend compiles them.

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
