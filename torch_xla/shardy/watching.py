"""Tells on a terminal what is being compiled, and what came of it."""

from __future__ import annotations

import contextlib
import sys

from . import door, switch
from .callers import Callers
from .compile import ledger
from .compile.record import collectives, summary
from .progress import Progress

_LOWERING = 'being lowered'
_COMPILING = 'being partitioned and compiled'


class Watch(contextlib.ExitStack):
  """Tells until it is closed; a context, too.

  Attributes:
    is_quiet: whether it says nothing, as there is no terminal to say it on.
  """

  def __init__(self) -> None:
    """Starts to watch programs as they are compiled.

    Raises:
      DoorError: the mode is off, so that no program is seen.
    """
    super().__init__()
    switch.check_door()
    self.is_quiet = not sys.stderr.isatty()
    if not self.is_quiet:
      self._progress = Progress('torch_xla', sys.stderr)
      self._callers = Callers()
      self.callback(door.wrap(self._compile))
      self.enter_context(ledger.process_ledger.watch(self._lowered))

  def _lowered(self, program: ledger.IncomingProgram,
               earlier: tuple[ledger.IncomingProgram, ...]) -> None:
    self._progress.stage = f'{program.name or "(StableHLO)"} {_COMPILING}'

  def _compile(self, compilation: door.Compilation,
               rest: door.Compiler) -> None:
    self._progress.stage = _LOWERING
    before = len(ledger.process_ledger.programs())
    with self._progress.compiling(
        'a program', self._callers.now(), says_end=False):
      rest(compilation)
    # An executable that is used again is no compile.
    for record in ledger.process_ledger.programs()[before:]:
      self._progress.say(
          f'{summary(record)}  collectives: {collectives(record.collectives)}')
