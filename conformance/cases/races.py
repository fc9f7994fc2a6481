"""Two threads that are in a plugin at once, as near to each other as can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import contextlib
import dataclasses
import random

from ..case import Case, expect, NotApplicable, Tier
from ..context import Context
from ..pjrt.at_once import at_once
from ..pjrt.bench import Bench, Work
from ..pjrt.table import Table


@dataclasses.dataclass(frozen=True)
class _Kind:
  """A kind of call, and how it is brought together with others.

  Attributes:
    times: that it is tried by each of two threads.
    batch: of these, how many are prepared at once.
    beside: calls of other kinds by each of two more threads in that time.
  """
  make: Callable[[Bench], Work]
  times: int = 4000
  batch: int = 100
  beside: int = 100


_SHORT = {
    'execute': _Kind(Bench.execute),
    'upload': _Kind(Bench.upload),
    'read': _Kind(Bench.read),
    'await': _Kind(Bench.wait),
    'ready_event': _Kind(Bench.ask),
    'destroy': _Kind(Bench.destroy),
    'destroy_event': _Kind(Bench.destroy_event),
    'refused': _Kind(Bench.refused),
}
# These are not among the others of another part: they take long.
_KINDS = {
    **_SHORT,
    'compile': _Kind(Bench.compile, 60, 10, 2000),
    'load': _Kind(Bench.load, 300, 100, 1000),
}


def _meets(context: Context, part: str) -> str:
  """Calls of a kind beside each other, and beside those of each other kind."""
  if part == 'load':
    if not context.capabilities.get('serialization'):
      raise NotApplicable('the plugin does not serialise programs')
    context.needs('Executable_DeserializeAndLoad')
  kind, random_ = _KINDS[part], random.Random(context.seed)
  with context.client() as client:
    with contextlib.closing(Bench(client, context.format)) as bench:
      for _ in range(kind.times // kind.batch):
        makers = [[kind.make] * kind.batch] * 2 + [[
            _SHORT[name].make
            for name in random_.choices(list(_SHORT), k=kind.beside)
        ]
                                                   for _ in range(2)]
        _try(context.table, [[make(bench) for make in each] for each in makers])
  return f'twice {kind.times:,} calls, on four threads'


def _try(table: Table, lists: Sequence[Sequence[Work]]) -> None:
  """Makes the calls of each list on a thread, and looks at all results.

  Raises:
    Failure: one is not as if it had been alone.
  """
  outcomes = at_once(table, [[work.call for work in works] for works in lists])
  for works, statuses in zip(lists, outcomes):
    for work, status in zip(works, statuses):
      wrong = work.judge(status)
      work.end()
      expect(
          not wrong, f'PJRT_{work.call.name} beside calls of three other '
          f'threads: {wrong}')


CASES: tuple[Case, ...] = (Case(
    'races.meeting',
    'numbers change, or the process ends, when threads work at once',
    _meets,
    tuple(_KINDS),
    seconds=180,
    tier=Tier.WHOLE),)
