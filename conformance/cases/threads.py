"""Several threads at once, as data loaders and torch_xla's own have it."""

from __future__ import annotations

from collections.abc import Callable
import concurrent.futures
import dataclasses
import random
import threading

from ..case import Case, expect, Tier
from ..context import Context
from ..pjrt.bench import at_once, Bench, Work
from ..pjrt.graph import elementwise
from ..pjrt.host_array import HostArray
from .checks import check_array, check_run

_THREADS = 8
_ROUNDS = {'transfers': 60, 'executions': 60, 'compiles': 4}


def _case(context: Context, part: str) -> str:
  rounds, barrier = _ROUNDS[part], threading.Barrier(_THREADS)
  with context.client() as client:
    loaded = client.compile(elementwise((64,)))

    def transfer(number: int, label: str) -> None:
      sent = HostArray.random_bits('F32', (257,), number)
      buffer = client.put(sent, number // rounds % len(client.ids))
      check_array(buffer, sent, label)
      buffer.destroy()

    def execute(number: int, label: str) -> None:
      check_run(client, loaded, ([number] * 64, [1] * 64), [number + 1] * 64,
                label)

    def compile_(number: int, label: str) -> None:
      size = 8 + number
      own = client.compile(elementwise((size,)))
      check_run(client, own, [[size] * size] * 2, [2 * size] * size,
                f'{label}: a program compiled beside others')
      own.destroy()

    attempt = dict(zip(_ROUNDS, (transfer, execute, compile_)))[part]

    def work(thread: int) -> None:
      barrier.wait()  # All begin at once.
      for round_ in range(rounds):
        attempt(thread * rounds + round_, f'thread {thread}, round {round_}')

    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
      for done in [pool.submit(work, thread) for thread in range(_THREADS)]:
        done.result()
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
    bench = Bench(client)
    for _ in range(kind.times // kind.batch):
      kinds = [[kind] * kind.batch] * 2 + [
          random_.choices(list(_SHORT.values()), k=kind.beside)
          for _ in range(2)
      ]
      lists = [[each.make(bench) for each in some] for some in kinds]
      for works, statuses in zip(lists, at_once(context.table, lists)):
        for work, status in zip(works, statuses):
          wrong = work.judge(status)
          work.end()
          expect(
              not wrong, f'PJRT_{work.name} beside calls of three other '
              f'threads: {wrong}')
  return f'twice {kind.times:,} calls, on four threads'


CASES: tuple[Case, ...] = (
    Case('threads.together', 'numbers change when threads work at once', _case,
         tuple(_ROUNDS)),
    Case(
        'races.meeting',
        'numbers change, or the process ends, when threads work at once',
        _meets,
        tuple(_KINDS),
        seconds=180,
        tier=Tier.WHOLE),
)
