"""Shardy and V2 shardings for torch_xla, at the door to the compiler.

Every program that torch_xla compiles goes through `PJRT_Client_Compile` of the
backend's plugin. With the mode on (`XLA_USE_SHARDY=1`, `XLA_SHARDING_V2=1` or
`torch_xla.runtime.use_shardy()`), a shim stands there and hands each program to
this package first. With the mode off nothing here runs.
"""

import contextlib
from typing import Iterator, List, Tuple

from .errors import BackendCompileError, DoorError, TooLateError
from .mode import Mode
from .switch import behind_door, current_mode, device_name, start, switch_on

__all__ = [
    'BackendCompileError', 'DoorError', 'Mode', 'TooLateError', 'behind_door',
    'current_mode', 'device_name', 'programs', 'record', 'start', 'switch_on'
]


def programs() -> Tuple['records.ProgramRecord', ...]:
  """All programs that this process compiled through the door, oldest first.

  Empty with the mode off. The programs' bytes are not kept; `record()` keeps
  them. What came out of a persistent compilation cache was not compiled and is
  not here.
  """
  from . import records
  return records.programs()


@contextlib.contextmanager
def record() -> Iterator[List['records.ProgramRecord']]:
  """Collects one record per program compiled in the block, bytes included.

  >>> with torch_xla.shardy.record() as programs:
  ...   torch_xla.sync()
  >>> programs[0].partitioner

  Raises:
    DoorError: programs do not pass the door, so nothing could be recorded.
  """
  from . import records, switch
  switch.check_door()
  with records.collect() as collected:
    yield collected
