"""Compiled programs stored and loaded, over and over; and compiled twice."""

from __future__ import annotations

from collections.abc import Sequence
import concurrent.futures
import multiprocessing
import tempfile
from typing import Any

from ..case import Case, expect, Needs
from ..context import Context
from ..pjrt.client import Client
from ..pjrt.executable import Loaded, serialize
from ..pjrt.footprint import growth
from ..pjrt.graph import Array, elementwise, Graph, Step
from ..torch_modules import metrics, torch, torch_xla, xs
from ..torch_session import annotated, check_equal, DATA, MODEL, numbers
from .checks import check_floats, check_run

_VALUES = tuple(float(i) for i in range(16))


def _reload(context: Context, part: str) -> str:
  """Loads a stored program in the same client, or in one started after it."""
  context.needs_serialization()
  with context.client() as client:
    stored = {
        opcode: client.compile(elementwise((16,), opcode)).serialized()
        for opcode in ('add', 'multiply')
    }
    if part == 'same client':
      _check_stored(client, stored)
  if part == 'next client':
    with context.client() as client:
      _check_stored(client, stored)
  return f'{len(stored["add"]):,} bytes'


def _check_stored(client: Client, stored: dict[str, bytes]) -> None:
  for opcode, data in stored.items():
    expected = [2 * v if opcode == 'add' else v * v for v in _VALUES]
    check_run(client, client.load(data), (_VALUES, _VALUES), expected,
              f'{opcode}, loaded again,')


def _same(context: Context, part: str) -> str:
  """One program, compiled again and again, gives the same numbers."""
  with context.client() as client:
    results = {
        client.run(client.compile(elementwise((16,))), _VALUES, _VALUES)
        for _ in range(5)
    }
  expect(results == {tuple(2 * v for v in _VALUES)},
         f'five compilations of one program gave {sorted(results)}')
  return '5 compilations'


def _names(context: Context, part: str) -> str:
  """Two programs of one name, type and size live side by side."""
  client = context.kept_client()
  array = Array('f32', (16,))
  opcodes = {'subtract': 0., 'multiply': 1.}  # Of as many letters.
  programs = {
      opcode:
          client.compile(
              Graph((array, array), (Step(opcode, array, (0, 1)),), (2,)))
      for opcode in opcodes
  }
  for opcode, loaded in programs.items():
    check_run(client, loaded, [[1.] * 16] * 2, [opcodes[opcode]] * 16,
              f'of two programs of one name {opcode}')
  return ' and '.join(opcodes)


def _retrace(context: Context, part: str) -> str:
  """A step is compiled once, lazily and by torch.compile."""
  session = context.torch()
  mesh = session.grid()
  weight = annotated(session.to_device(numbers(16, 8)), mesh, (MODEL, None))

  def step(batch: torch.Tensor) -> torch.Tensor:
    return torch.relu(batch @ weight).sum(1)

  run = step if part == 'lazy' else torch.compile(step, backend='openxla')
  compiled = []
  for number in range(6):
    host = numbers(4, 16, start=number)
    batch = session.to_device(host)
    if part == 'lazy':
      xs.mark_sharding(batch, mesh, (DATA, None))
    result = run(batch)
    torch_xla.sync(wait=True)
    check_equal(result.cpu(),
                torch.relu(host @ numbers(16, 8)).sum(1), f'step {number}')
    compiled.append(metrics.counter_value('UncachedCompile') or 0)
  more = compiled[-1] - compiled[2]
  expect(
      more == 0, f'{more} program(s) were compiled in the last three of six '
      'steps that are the same')
  return f'{compiled[-1]} programs for 6 steps'


def _apart(context: Context, part: str) -> str:
  """Graphs that differ in where a tensor is used have programs of their own."""
  session = context.torch()
  left, right = numbers(4, start=6), numbers(4, start=2)
  for f in (lambda a, b: (a - b) * (a - 2 * b), lambda a, b: (a - b) *
            (b - 2 * a)):
    result = f(session.to_device(left), session.to_device(right))
    torch_xla.sync(wait=True)
    check_equal(result.cpu(), f(left, right), 'the product of differences')
  return '2 graphs'


def _cache(context: Context, part: str) -> str:
  """Checks that a second process loads what the first one has stored."""
  context.needs_serialization()
  with tempfile.TemporaryDirectory(prefix='conformance-') as folder:
    # No runtime is up yet, so a fork is as good as a new process.
    forks = multiprocessing.get_context('fork')
    with concurrent.futures.ProcessPoolExecutor(1, forks) as other:
      other.submit(_step_with_cache, context, folder).result()
    report = _step_with_cache(context, folder)
  expect(report.loaded > 0 and not report.damaged,
         f'nothing was loaded of what another process stored: {report}')
  return f'{report.loaded} loaded, {report.missing} compiled'


def _step_with_cache(context: Context, folder: str) -> Any:
  """Computes, and returns the report of the cache."""
  from torch_xla.shardy import cache
  store = cache.use(folder)
  session = context.torch()
  host = numbers(16, 8)
  tensor = session.to_device(host)
  xs.mark_sharding(tensor, session.grid(), (DATA, None))
  result = tensor @ session.to_device(numbers(8, 4))
  torch_xla.sync(wait=True)
  check_equal(result.cpu(), host @ numbers(8, 4), 'a product')
  return store.report()


_COUNT = 4
# Numbers of float32 in a program that is large by them: 1 MiB.
_CONSTANT = 1 << 18
_ROUNDS = 8
_PROGRAMS = 4


def _adding(numbers: Sequence[float]) -> Graph:
  """A program that adds numbers to its argument."""
  array = Array('f32', (len(numbers),))
  return Graph((array,), (Step(
      'constant', array, numbers=tuple(numbers)), Step('add', array, (0, 1))),
               (2,))


def _check(client: Client, loaded: Loaded, number: float, label: str) -> None:
  check_run(client, loaded, [range(_COUNT)],
            [i + number for i in range(_COUNT)], label)


def _side_by_side(context: Context, part: str) -> str:
  """Programs that differ in one number, and live at the same time.

  Each is loaded twice; the first ones go, and the second ones stay in use.
  """
  context.needs_serialization()
  client = context.kept_client()
  stored = [
      client.compile(_adding([number] * _COUNT)).serialized()
      for number in range(_PROGRAMS)
  ]
  first = [client.load(data) for data in stored]
  second = [client.load(data) for data in reversed(stored)]
  for number, loaded in enumerate(first):
    _check(client, loaded, number, f'program {number}')
  for number, loaded in enumerate(first):
    loaded.destroy()
    _check(client, second[-1 - number], number,
           f'program {number}, loaded twice and once destroyed,')
  return f'{_PROGRAMS} programs, each loaded twice'


def _devices(context: Context, part: str) -> str:
  """A stored program runs on the devices that it was compiled for."""
  context.needs_serialization()
  client = context.kept_client()
  last = len(client.ids) - 1
  places = {'another': [last], 'two': [0, 1], 'turned': [last, 0]}[part]
  ids = [client.ids[place] for place in places]
  loaded = client.load(client.compile(_adding([1.] * _COUNT), ids).serialized())
  results = loaded.execute(
      [[client.put_floats([place] * _COUNT, place)] for place in places])
  for place, (result,) in zip(places, results):
    expect(
        result.device == client.devices[place],
        f'stored for devices {ids}, and the result of device '
        f'{client.ids[place]} is on another one')
    check_floats(result, [place + 1] * _COUNT,
                 f'stored for devices {ids}, device {client.ids[place]} gives')
  return f'devices {", ".join(map(str, ids))}'


def _memory_growth(context: Context, part: str) -> str:
  """Nothing grows with what is stored, or loaded, and destroyed again."""
  context.needs_serialization()
  client = context.kept_client()
  # Squares, as a compiler may have no constant for what rises evenly.
  graph = _adding([i * i % 65521 for i in range(_CONSTANT)])
  data = client.compile(graph).serialized()
  with client.compile(graph).executable() as executable:

    def step(_: int) -> None:
      if part == 'stored':
        serialize(context.table, executable)
      else:
        client.load(data).destroy()

    grown = growth(client, _ROUNDS, step)
  expect(
      not grown.leaks(),
      f'a program of {len(data) / 2**20:.1f} MiB, {part} and '
      f'destroyed again: {grown.leaks()}')
  return f'{grown} bytes each'


CASES: tuple[Case, ...] = (
    Case('caching.reload', 'a program from the cache is another one', _reload,
         ('same client', 'next client')),
    Case(
        'caching.same', 'hosts, or runs, that compile the same program '
        'compute different things', _same),
    Case('caching.names', 'a program is another one of the same name', _names),
    Case(
        'caching.retrace',
        'each step is compiled again',
        _retrace, ('lazy', 'torch.compile'),
        devices=2,
        seconds=120,
        needs=Needs.TORCH_XLA),
    Case(
        'caching.apart', 'wrong numbers, where a graph is like one before '
        'but for which tensor it uses where: a fault of torch_xla, if the '
        'doctor warns of it',
        _apart,
        needs=Needs.TORCH_XLA),
    Case(
        'caching.cache',
        'each start of a training compiles all again',
        _cache,
        devices=2,
        needs=Needs.MODES),
    Case('loading.apart', 'a program from the cache is another one',
         _side_by_side),
    Case(
        'loading.devices',
        'a program from the cache runs on other devices',
        _devices, ('another', 'two', 'turned'),
        devices=2),
    Case('loading.kept', 'a run that loads many programs runs out of memory',
         _memory_growth, ('stored', 'loaded')),
)
