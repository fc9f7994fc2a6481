"""The compiler that the door calls for each program: plan, attempt, record."""

from __future__ import annotations

import collections
from collections.abc import Callable, Hashable
import dataclasses
import itertools
import logging
import threading
from typing import Optional

from ..door.shim import Compilation
from ..errors import LayoutError
from ..hlo import compile_options, dump
from ..warn_once import WarnOnce
from .attempt import Attempt, Failure, Outcome
from .ledger import Ledger, IncomingProgram
from .plan import Plan, Planner, Step, Surroundings, Tiles
from .record import AttemptRecord, ProgramRecord, with_compiled

logger = logging.getLogger(__name__)

_NO_REPORT = 'the backend does not report its layouts'

# Whatever a program holds as constants, its executable holds on the device.
_LARGEST_PROGRAM = 16 * 1024
# How many programs are kept: as many as the shim keeps.
_MOST = 64


@dataclasses.dataclass
class CachedExecutable:
  """A program that was sent once, at least.

  Attributes:
    number: what the shim knows its executable by.
    filed: its record, bytes and all, and the number of that in the ledger; set
      before the shim is told to keep the executable.
    answer: what the runtime reads of it, and its format; None: the backend's.
  """
  number: int
  filed: Optional[tuple[int, ProgramRecord]] = None
  answer: Optional[tuple[bytes, str]] = None


class Compiler:
  """Compiles each program as planned and files one record of it.

  `_XLAC` has a program compiled at each read of a sharded tensor and drops it
  right after (pytorch/xla#9751); what it caches it does not drop. So the shim
  keeps dropped executables, and the compiler their records.
  """

  def __init__(self,
               planner: Planner,
               ledger: Ledger,
               surroundings: Surroundings = Surroundings(),
               text_of: Callable[[bytes], str] = lambda program: ''):
    """Makes a compiler that follows a planner's plans and files a record.

    Args:
      surroundings: those that the plans depend on.
      text_of: as for `dump.program`.
    """
    self._planner = planner
    self._ledger = ledger
    self._surroundings = surroundings
    self._text_of = text_of
    self._numbers = itertools.count()
    self._lock = threading.Lock()
    self._executable_numbers = itertools.count(1)
    # Of the programs that were sent last.
    self._executables: collections.OrderedDict[
        Hashable, CachedExecutable] = collections.OrderedDict()
    self._warnings = WarnOnce(logger)
    self._cannot_report = False  # The backend, of any program.

  def __call__(self, compilation: Compilation) -> None:
    """Compiles by the backend, or returns the cached executable.

    Raises:
      BackendCompileError: the backend refused the last attempt's program.
      LayoutError: its result cannot be used.
      ValueError: the program, its options or its annotations are damaged.
    """
    cached: Optional[CachedExecutable] = None
    if len(compilation.program) <= _LARGEST_PROGRAM:
      meshes = self._surroundings.meshes()  # Of which a plan may take one.
      key = compilation.program, compilation.format, compilation.options, meshes
      with self._lock:
        cached = self._executables.setdefault(
            key, CachedExecutable(next(self._executable_numbers)))
        self._executables.move_to_end(key)
        if len(self._executables) > _MOST:
          self._executables.popitem(last=False)
    if cached and cached.filed and compilation.reuse(cached.number):
      if cached.answer is not None:
        compilation.set_optimized_program(*cached.answer)
      self._ledger.add_use(*cached.filed)
      return
    with dump.program(next(self._numbers), self._text_of):
      dump.stage('sent', compilation.program, compilation.format)
      plan = self._planner(compilation.program, compilation.format,
                           compile_options.read(compilation.options))
      incoming = IncomingProgram.pack(plan.name, compilation.format,
                                      compilation.program, plan.tensors)
      lost = tuple(self._surroundings.lost(plan.name, incoming.tensors))
      self._ledger.begin(incoming)
      record, answer, error = self._carry_out(plan, compilation)
    record = dataclasses.replace(record, packed=incoming.packed, lost=lost)
    number = self._ledger.add(record)
    if error is not None:
      try:
        raise error
      finally:
        del error  # A cycle: this frame, error, traceback.
    if answer is not None:
      compilation.set_optimized_program(*answer)
    if cached is not None:
      cached.answer = answer  # Read by who sees that it is filed.
      cached.filed = number, record
      compilation.keep(cached.number)

  def _carry_out(
      self, plan: Plan, compilation: Compilation
  ) -> tuple[ProgramRecord, Optional[tuple[bytes, str]], Optional[Exception]]:
    """The record, the answer for the runtime, and the error if there is none."""
    reason, seconds = plan.reason, 0.0
    reports = False if self._cannot_report else None
    given_up: list[AttemptRecord] = []

    def run(attempt: Attempt) -> Outcome:
      nonlocal seconds, reports
      dump.stage('handed_on', attempt.program, attempt.program_format or
                 compilation.format)
      outcome = attempt.run(compilation)
      dump.stage('answer', outcome.answer, outcome.answer_format)
      seconds += outcome.seconds
      if outcome.error is None:
        reports = outcome.results is not None
        self._cannot_report = outcome.cannot_report
      return outcome

    def give_up(attempt: Attempt, outcome: Outcome, reason: str) -> None:
      given_up.append(
          AttemptRecord(attempt.partitioner, outcome.seconds, reason))

    tiles: Tiles = {}
    if plan.probe and reports is not False:
      outcome = run(plan.probe.attempt)
      tiles = plan.probe.tiles(outcome)
      description = plan.probe.description
      if outcome.error is not None:
        description += f', and refused that ({outcome.error})'
      elif not reports:
        description = _NO_REPORT
      give_up(plan.probe.attempt, outcome, description)
    ran: Optional[tuple[Attempt, Outcome]] = None
    broken: Optional[str] = None
    failure: Optional[Failure] = None
    for step in plan.steps:
      if step.reports is not None and step.reports is (reports is False):
        continue
      if step.after is not None and step.after is not failure:
        continue
      attempt = step.make(tiles)
      note = plan.note
      if reason:
        why, how = _fallback(reason, step, attempt)
        self._warnings.warning(f'{why}. Programs like this one {how}; '
                               'torch_xla.shardy.programs() has them all.')
        note = f'{why}; {note}' if note else why
      outcome = run(attempt)
      ran = attempt, outcome
      if outcome.error is None and step.reports and not reports:
        broken, failure = _NO_REPORT, Failure.LAYOUTS
      elif failed := attempt.failure(outcome):
        broken, failure = failed
        reason = broken
      else:
        broken = None
        break
      give_up(attempt, outcome, broken)
    if ran is None:
      raise LayoutError(
          f'program {plan.name or "(StableHLO)"} cannot be compiled: there is no '
          'way for a backend that does not report its layouts')
    attempt, outcome = ran
    answer = None
    if broken is not None:
      given_up.pop()  # The last.
    error: Optional[Exception] = outcome.error
    if error is None and broken is not None:
      error = LayoutError(
          f'program {plan.name or "(StableHLO)"} cannot be used: {broken}. '
          'There is nothing else to compile it with: mark the tensor so that '
          'its dimensions divide evenly, or not at all, or have the plugin '
          'keep the layouts that it is told, and tell them')
    elif error is None:
      if remark := attempt.note_of(outcome):
        note = f'{note}; {remark}' if note else remark
        self._warnings.warning(remark)
      answer = attempt.answer(outcome)
    compiled = outcome.compiled
    return ProgramRecord(
        name=plan.name,
        format=attempt.program_format or compilation.format,
        form=attempt.form,
        options=compile_options.read(outcome.options),
        seconds=seconds,
        shardings=attempt.shardings,
        tensors=with_compiled(attempt.tensors, compiled),
        collectives=compiled.collectives if compiled else None,
        memory=outcome.memory,
        note=note,
        given_up=tuple(given_up),
        error=None if error is None else str(error),
        sent=compilation.program,
        handed_on=attempt.program,
        options_sent=compilation.options,
        options_handed_on=outcome.options), answer, error


def _fallback(reason: str, step: Step, attempt: Attempt) -> tuple[str, str]:
  """The note on an attempt that was not the first, and how it runs."""
  if step.description:
    return f'{reason}: {step.description}', 'are compiled twice'
  return (f'{reason}: {attempt.partitioner.value.upper()} partitions',
          'run as in the official wheel, where priorities do not count')
