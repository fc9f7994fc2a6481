"""What the door calls for each program: plan, attempt, record."""

from __future__ import annotations

import logging
from typing import Optional

from ..door.shim import Compilation
from ..errors import BackendCompileError
from ..hlo import compile_options
from ..said_once import SaidOnce
from .ledger import Ledger
from .plan import Plan, Planner
from .record import ProgramRecord, with_compiled

logger = logging.getLogger(__name__)


class Compiler:
  """Has each program compiled as planned and files one record of it."""

  def __init__(self, planner: Planner, ledger: Ledger):
    self._planner = planner
    self._ledger = ledger
    self._said = SaidOnce(logger)

  def __call__(self, compilation: Compilation) -> None:
    """Hands `compilation` on to the backend.

    Raises:
      BackendCompileError: the backend refused the last attempt's program.
      ValueError: the program, its options or its annotations are damaged.
    """
    plan = self._planner(compilation.program, compilation.format,
                         compile_options.read(compilation.options))
    record, error = self._carry_out(plan, compilation)
    self._ledger.add(record)
    if error is not None:
      raise error

  def _carry_out(
      self, plan: Plan, compilation: Compilation
  ) -> tuple[ProgramRecord, Optional[BackendCompileError]]:
    reason, seconds = plan.reason, 0.0
    for attempt in plan.attempts:
      note = plan.note
      if reason:
        note = f'{reason}: {attempt.partitioner.value.upper()} partitions'
        self._said.warning(
            f'{note}. Programs like this one run as in the official wheel; '
            'torch_xla.shardy.programs() has them all.')
      outcome = attempt.run(compilation)
      seconds += outcome.seconds
      broken = attempt.promise(outcome) if attempt.promise else None
      if broken is None:
        break
      reason = broken
    compiled = outcome.compiled
    return ProgramRecord(
        name=plan.name,
        format=compilation.format,
        options=compile_options.read(outcome.options),
        seconds=seconds,
        shardings=attempt.shardings,
        tensors=with_compiled(attempt.tensors, compiled),
        collectives=compiled.collectives if compiled else None,
        note=note,
        error=None if outcome.error is None else str(outcome.error),
        sent=compilation.program,
        handed_on=attempt.program,
        options_sent=compilation.options,
        options_handed_on=outcome.options), outcome.error
