"""The bytes that annotations which disagree move."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..compile.record import collectives, ProgramRecord


def moved(programs: Iterable[ProgramRecord], min_bytes: int) -> Iterator[str]:
  """Each pair of annotations that moves so many bytes, with the two by name."""
  from .. import explanation
  from ..explanation import text
  for explained in explanation.of_records(programs):
    propagation = explained.propagation
    for conflict in explained.conflicts:
      moves = propagation.collectives({p.operation for p in conflict.places})
      if sum(m.nbytes for m in moves) < max(min_bytes, 1):
        continue
      loser, winner = (
          propagation.origins[n] for n in (conflict.loser, conflict.winner))
      alike = f', and {conflict.alike} alike' if conflict.alike else ''
      yield (f'{explained.name}: {loser.name} {text.spec_text(loser)} against '
             f'{winner.name} {text.spec_text(winner)}{alike} moves '
             f'{collectives(moves)}')
