"""Several threads at once, as data loaders and torch_xla's own have it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import concurrent.futures
import contextlib
import dataclasses
import random
import threading

from ..case import Case, expect, Failure, Tier
from ..context import Context
from ..pjrt.bench import at_once, Bench, Work
from ..pjrt.client import Client
from ..pjrt.graph import elementwise
from ..pjrt.host_array import HostArray
from ..pjrt.table import Table

_THREADS = 8
_ROUNDS = 60
_COMPILES = 4


def _together(work: Callable[[int], None]) -> None:
  """Runs `work(number)` on threads that begin at once."""
  barrier = threading.Barrier(_THREADS)

  def run_one(number: int) -> None:
    barrier.wait()
    work(number)

  with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
    for done in [pool.submit(run_one, n) for n in range(_THREADS)]:
      done.result()


def _transfers(client: Client, number: int) -> None:
  device = number % len(client.ids)
  for round_ in range(_ROUNDS):
    sent = HostArray.random_bits('F32', (257,), number * _ROUNDS + round_)
    buffer = client.put(sent, device)
    difference = sent.first_difference(buffer.read('F32', (257,)))
    buffer.destroy()
    if difference:
      raise Failure(f'thread {number}, round {round_}: {difference}')


def _case(context: Context, part: str) -> str:
  with context.client() as client:
    if part == 'transfers':
      _together(lambda number: _transfers(client, number))
      return f'{_THREADS} threads, {_ROUNDS} rounds'
    program = context.program(elementwise((64,)), client)
    loaded = client.compile(program)

    def execute(number: int) -> None:
      for round_ in range(_ROUNDS):
        value = float(number * _ROUNDS + round_)
        actual = client.run(loaded, [value] * 64, [1.] * 64)
        expect(
            actual == (value + 1,) * 64,
            f'thread {number}, round {round_}: {set(actual)} in place of '
            f'{value + 1}')

    def compile_(number: int) -> None:
      for round_ in range(_COMPILES):
        size = 8 + number * _COMPILES + round_
        own = client.compile(context.program(elementwise((size,)), client))
        sums = client.run(own, [float(size)] * size, [float(size)] * size)
        own.destroy()
        expect(
            sums == (2. * size,) * size, f'thread {number}: a program '
            f'compiled beside others gave {set(sums)}, not {2. * size}')

    _together(execute if part == 'executions' else compile_)
    loaded.destroy()
  rounds = _ROUNDS if part == 'executions' else _COMPILES
  return f'{_THREADS} threads, {rounds} rounds'


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
    context.needs_serialization()
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


CASES: tuple[Case, ...] = (
    Case('threads.together', 'numbers change when threads work at once', _case,
         ('transfers', 'executions', 'compiles')),
    Case(
        'races.meeting',
        'numbers change, or the process ends, when threads work at once',
        _meets,
        tuple(_KINDS),
        seconds=180,
        tier=Tier.WHOLE),
)
