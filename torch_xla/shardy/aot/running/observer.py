"""Looks at each program on its way to the compiler, and at what became of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import hashlib
import time
from typing import NamedTuple, Optional

from ...compile import ledger
from ...door import Compilation, Compiler
from ...errors import BackendCompileError, LayoutError
from ...hlo import compile_options, messages
from ...hlo.protos import HloModuleProto
from ...script_names import ScriptNames
from . import plugin
from ..compiled import collectives, cycles, heavy_tensors
from ...callers import Callers
from ...progress import Progress
from ..compiled.compiled_module import read
from ..compiled.mesh_groups import MeshValue
from ..report import Program


class Observed(NamedTuple):
  """A program that came by.

  Attributes:
    program: what is known of it.
    number: in the plugin; None if it was refused.
  """
  program: Program
  number: Optional[int]


class ProgramObserver:
  """A wrapper around the door's compilers that keeps what it sees.

  Attributes:
    observed: in the order in which programs were compiled.
    findings: what could not be seen, and why.
  """

  def __init__(self, callers: Callers, progress: Progress,
               meshes: Sequence[MeshValue], changed: Callable[[], None]):
    self.observed: list[Observed] = []
    self.findings: list[str] = []
    self._callers = callers
    self._progress = progress
    self._meshes = meshes
    self._changed = changed
    self._names = ScriptNames()

  def __call__(self, compilation: Compilation, rest: Compiler) -> None:
    called_from = self._callers.now()
    sent = (
        messages.parse(HloModuleProto, compilation.program)
        if compilation.format == 'hlo' else None)
    name = sent.name if sent else '(StableHLO)'
    records = ledger.process_ledger.programs
    step, filed = plugin.counters().steps, len(records())
    names = self._names.of_parameters(compilation)
    start, error, number = time.perf_counter(), '', None
    try:
      with self._progress.compiling(f'program {len(self.observed) + 1}, {name}',
                                    called_from):
        rest(compilation)
      number = plugin.last_program()
    except (BackendCompileError, LayoutError) as e:
      error = str(e)
      raise
    finally:
      seconds = time.perf_counter() - start
      record = next(reversed(records()[filed:]), None)
      options = compile_options.read(compilation.options)
      program = Program(
          name=record.name if record and record.name else name,
          called_from=called_from,
          step=step,
          seconds=record.seconds if record else seconds,
          partitions=options.num_partitions,
          partitioner=(record.options if record else options).partitioner.value,
          sent=_digest(compilation.program, compilation.options),
          note=record.note if record else '',
          error=error)
      # Else it was observed when its executable, used again now, was compiled.
      if number is None or number not in self.positions():
        if not error and number is not None:
          names.update((t.parameter, t.name)
                       for t in (record.tensors if record else ())
                       if t.parameter is not None and t.name)
          program = self._with_facts(program, compilation, number, names)
        self.observed.append(Observed(program, number))
        self._changed()

  def positions(self) -> dict[int, int]:
    """Positions in `programs` by the plugin's numbers."""
    return {
        entry.number: at
        for at, entry in enumerate(self.observed)
        if entry.number is not None
    }

  def programs(self) -> tuple[Program, ...]:
    """All programs, with how often each was executed so far."""
    programs = [_as_run(entry) for entry in self.observed]
    if not any(p.cycles and p.cycles.operations for p in programs):
      # Not a small program: a compiler that estimates nothing.
      programs = [dataclasses.replace(p, cycles=None) for p in programs]
    return tuple(programs)

  def _with_facts(self, program: Program, compilation: Compilation, number: int,
                  names: Mapping[int, str]) -> Program:
    facts = plugin.program_facts(number)
    program = dataclasses.replace(
        program, memory=compilation.memory(), flops=_flops(facts))
    try:
      module = read(*compilation.compiled_program())
      plugin.set_donated(number, module.donated)
      return dataclasses.replace(
          program,
          heaviest=heavy_tensors.heavy_tensors(module, names),
          collectives=collectives.collective_uses(module, self._meshes),
          cycles=cycles.cycles(module))
    except (BackendCompileError, ValueError) as e:
      self.findings.append(
          f'the compiled program of {program.name} cannot be read, so that its '
          f'collectives, heaviest tensors and cycles are not known: {e}')
      return program


def _as_run(entry: Observed) -> Program:
  """The program, with what its executions so far told."""
  if entry.number is None:
    return entry.program
  facts = plugin.program_facts(entry.number)
  return dataclasses.replace(
      entry.program,
      executions=facts.executions,
      # Sizes of arguments are dense, and of one buffer given twice count twice.
      beside=max(facts.beside, 0))


def _flops(facts: plugin.ProgramFacts) -> Optional[float]:
  """What computes nothing has no such property."""
  if facts.flops >= 0:
    return facts.flops
  return 0.0 if facts.bytes_accessed >= 0 else None


def _digest(*parts: bytes) -> str:
  return hashlib.sha256(b'\0'.join(parts)).hexdigest()
