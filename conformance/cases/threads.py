"""Several threads at once, as data loaders and torch_xla's own have it."""

from __future__ import annotations

from collections.abc import Callable
import concurrent.futures
import threading

from ..case import Case, expect, Failure
from ..context import Context
from ..pjrt.client import Client
from ..pjrt.graph import elementwise
from ..pjrt.host_array import HostArray
from ..pjrt.numbers import destroy, floats, read_floats

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
        left, right = client.put(floats([value] * 64)), client.put(
            floats([1.] * 64))
        (result,), = loaded.execute([[left, right]])
        actual = read_floats(result, 64)
        destroy((left, right, result))
        expect(
            actual == (value + 1,) * 64,
            f'thread {number}, round {round_}: {set(actual)} in place of '
            f'{value + 1}')

    def compile_(number: int) -> None:
      for round_ in range(_COMPILES):
        size = 8 + number * _COMPILES + round_
        own = client.compile(context.program(elementwise((size,)), client))
        left = client.put(floats([float(size)] * size))
        (result,), = own.execute([[left, left]])
        sums = read_floats(result, size)
        destroy((left, result))
        own.destroy()
        expect(
            sums == (2. * size,) * size, f'thread {number}: a program '
            f'compiled beside others gave {set(sums)}, not {2. * size}')

    _together(execute if part == 'executions' else compile_)
    loaded.destroy()
  rounds = _ROUNDS if part == 'executions' else _COMPILES
  return f'{_THREADS} threads, {rounds} rounds'


CASES: tuple[Case,
             ...] = (Case('threads.together',
                          'numbers change when threads work at once', _case,
                          ('transfers', 'executions', 'compiles')),)
