"""Stored programs that are loaded, over and over, and several side by side."""

from __future__ import annotations

from collections.abc import Sequence

from ..case import Case, expect, NotApplicable
from ..context import Context
from ..pjrt.client import Client
from ..pjrt.executable import Loaded, serialize
from ..pjrt.footprint import growth
from ..pjrt.graph import Array, Graph, Step
from ..pjrt.numbers import destroy, floats, read_floats

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


def _needs_serialization(context: Context) -> None:
  if not context.capabilities.get('serialization'):
    raise NotApplicable('the plugin does not serialise programs')


def _stored(context: Context,
            client: Client,
            graph: Graph,
            device_ids: Sequence[int] = ()) -> bytes:
  loaded = client.compile(
      graph.program(context.format, device_ids or client.ids[:1]))
  with loaded.executable() as executable:
    data = serialize(context.table, executable)
  loaded.destroy()
  return data


def _check(client: Client, loaded: Loaded, number: float, label: str) -> None:
  given = client.put(floats(range(_COUNT)))
  (result,), = loaded.execute([[given]])
  actual = read_floats(result, _COUNT)
  destroy((given, result))
  expected = tuple(i + number for i in range(_COUNT))
  expect(actual == expected, f'{label} gives {actual} in place of {expected}')


def _apart(context: Context, part: str) -> str:
  """Programs that differ in one number, and live at the same time.

  Each is loaded twice; the first ones go, and the second ones stay in use.
  """
  _needs_serialization(context)
  client = context.kept_client()
  stored = [
      _stored(context, client, _adding([number] * _COUNT))
      for number in range(_PROGRAMS)
  ]
  first = [client.load(data) for data in stored]
  second = [client.load(data) for data in reversed(stored)]
  for number, loaded in enumerate(first):
    _check(client, loaded, number, f'program {number}')
  for number, loaded in enumerate(first):
    loaded.destroy()
    again = second[-1 - number]
    _check(client, again, number, f'program {number}, loaded twice and once '
           'destroyed,')
  for loaded in second:
    loaded.destroy()
  return f'{_PROGRAMS} programs, each loaded twice'


def _devices(context: Context, part: str) -> str:
  """A stored program runs on the devices that it was compiled for."""
  _needs_serialization(context)
  client = context.kept_client()
  places = [len(client.ids) - 1] if part == 'another' else [0, 1]
  ids = [client.ids[place] for place in places]
  loaded = client.load(_stored(context, client, _adding([1.] * _COUNT), ids))
  given = [[client.put(floats([place] * _COUNT), place)] for place in places]
  results = loaded.execute(given)
  for place, (result,) in zip(places, results):
    where = context.table.call('Buffer_Device', buffer=result.address).device
    expect(
        where == client.devices[place],
        f'stored for devices {ids}, and the result of device '
        f'{client.ids[place]} is on another one')
    actual = read_floats(result, _COUNT)
    expect(
        actual == (place + 1.,) * _COUNT, f'stored for devices {ids}, device '
        f'{client.ids[place]} gives {actual} in place of {place + 1.}')
  for buffers in (*given, *results):
    destroy(buffers)
  loaded.destroy()
  return f'devices {", ".join(map(str, ids))}'


def _memory_growth(context: Context, part: str) -> str:
  """Nothing grows with what is stored, or loaded, and destroyed again."""
  _needs_serialization(context)
  client = context.kept_client()
  # Squares, as a compiler may have no constant for what rises evenly.
  graph = _adding([i * i % 65521 for i in range(_CONSTANT)])
  data = _stored(context, client, graph)
  compiled = client.compile(graph.program(context.format, client.ids[:1]))
  with compiled.executable() as executable:

    def step(_: int) -> None:
      if part == 'stored':
        serialize(context.table, executable)
      else:
        client.load(data).destroy()

    grown = growth(client, _ROUNDS, step)
  compiled.destroy()
  leaks = '; '.join(grown.leaks())
  expect(
      not leaks, f'a program of {len(data) / 2**20:.1f} MiB, {part} and '
      f'destroyed again: {leaks}')
  return f'{grown} bytes each'


CASES: tuple[Case, ...] = (
    Case('loading.apart', 'a program from the cache is another one', _apart),
    Case(
        'loading.devices',
        'a program from the cache runs on other devices',
        _devices, ('another', 'two'),
        devices=2),
    Case('loading.kept', 'a run that loads many programs runs out of memory',
         _memory_growth, ('stored', 'loaded')),
)
