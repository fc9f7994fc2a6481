"""Objects that are created and destroyed leave no memory behind."""

from __future__ import annotations

import array
from collections.abc import Callable, Mapping
import contextlib
import dataclasses
import functools
import os
from pathlib import Path
import time

from ..case import Case, expect, NotApplicable, Tier
from ..context import Context
from ..pjrt import executable
from ..pjrt.buffer import destroy
from ..pjrt.client import Client
from ..pjrt.event import Callbacks
from ..pjrt.footprint import growth
from ..pjrt.graph import elementwise
from ..pjrt.host_array import floats, HostArray
from ..pjrt.table import PjrtError
from ..shared.sharding.text import parse_sharding
from .checks import check_array

# Large enough that one lost in fifty is more than a noise.
_BYTES = 64 << 10
_DIMS = {
    0: (),
    1: (_BYTES // 4,),
    2: (128, 128),
    3: (16, 32, 32),
    5: (2, 4, 8, 16, 16)
}
_CLIENTS = 4
_TYPES = ('F32', 'S32', 'BF16', 'PRED')

Step = Callable[[int], None]
Maker = Callable[[Context, Client], Step]


def _zeros(type_name: str, dims: tuple[int, ...]) -> HostArray:
  return HostArray(type_name, dims, bytes(HostArray.size_of(type_name, dims)))


def _uploads(rank: int) -> Maker:
  """Arrays of one rank, and of several types, to each device in turn."""

  def make(context: Context, client: Client) -> Step:
    arrays = [_zeros(name, _DIMS[rank]) for name in _TYPES]
    count = len(client.devices)
    return lambda number: client.put(arrays[number % len(_TYPES)], number //
                                     len(_TYPES) % count).destroy()

  return make


def _read(context: Context, client: Client) -> Step:
  shapes = list(_DIMS.values())
  buffers = [client.put(_zeros('F32', dims)) for dims in shapes]

  def step(number: int) -> None:
    place = number % len(buffers)
    buffers[place].read('F32', shapes[place])

  return step


def _copied(context: Context, client: Client) -> Step:
  context.needs('Buffer_CopyToDevice')
  if len(client.devices) < 2:
    raise NotApplicable('there is one device')
  buffer = client.put(_zeros('F32', _DIMS[2]))
  return lambda number: buffer.copy_to(client.devices[-1]).destroy()


def _deleted(context: Context, client: Client) -> Step:
  """Buffers that are deleted before they are destroyed."""
  array = _zeros('F32', _DIMS[2])

  def step(number: int) -> None:
    buffer = client.put(array)
    buffer.delete()
    buffer.destroy()

  return step


def _executed(context: Context, client: Client) -> Step:
  """Programs whose results have each rank in turn."""
  programs = [(client.compile(elementwise(dims)),
               client.put(_zeros('F32', dims))) for dims in _DIMS.values()]

  def step(number: int) -> None:
    loaded, argument = programs[number % len(programs)]
    destroy(loaded.execute([[argument, argument]])[0])

  return step


def _donated(context: Context, client: Client) -> Step:
  array = _zeros('F32', _DIMS[2])
  loaded = client.compile(elementwise(array.dims, donated=True))
  other = client.put(array)

  def step(number: int) -> None:
    given = client.put(array)
    destroy((given, *loaded.execute([[given, other]])[0]))

  return step


def _sharded(context: Context, client: Client) -> Step:
  """A program on two devices, whose arguments come anew with each step."""
  if len(client.devices) < 2:
    raise NotApplicable('there is one device')
  split = parse_sharding('{devices=[2,1]<=[2]}')
  rows, columns = _DIMS[2]
  loaded = client.compile(
      elementwise((2 * rows, columns), shardings=(split,) * 3), client.ids[:2])
  array = _zeros('F32', _DIMS[2])

  def step(number: int) -> None:
    parts = [client.put(array, device) for device in range(2)]
    for results in loaded.execute([[part, part] for part in parts]):
      destroy(results)
    destroy(parts)

  return step


def _events(context: Context, client: Client) -> Step:
  """Events that are asked for, with a callback each."""
  buffer = client.put(_zeros('F32', _DIMS[1]))
  callbacks = Callbacks(context.table)

  def step(number: int) -> None:
    event = buffer.ready_event()
    callbacks.add(event, number)
    event.wait()
    event.destroy()
    callbacks.take_calls()

  return step


def _errors(context: Context, client: Client) -> Step:
  """Calls that are refused: to read what is gone, and to compile nothing."""
  gone = client.put(_zeros('F32', _DIMS[1]))
  gone.delete()
  good = client.program(elementwise((8,)))
  nothing = dataclasses.replace(good, format='a format of nobody')

  def step(number: int) -> None:
    with contextlib.suppress(PjrtError):
      gone.read('F32', _DIMS[1])
    with contextlib.suppress(PjrtError):
      client.compile(nothing)

  return step


def _compiled(context: Context, client: Client) -> Step:
  """Programs that are compiled and destroyed again."""
  # Of another shape each time, or a cache may know it.
  return lambda number: client.compile(elementwise((number + 1,))).destroy()


def _loaded(context: Context, client: Client) -> Step:
  context.needs_serialization()
  context.needs('Executable_DeserializeAndLoad')
  data = client.compile(elementwise((8,))).serialized()
  return lambda number: client.load(data).destroy()


def _queried(context: Context, client: Client) -> Step:
  """The queries of a program."""
  loaded = client.compile(elementwise((8,)))

  def step(number: int) -> None:
    with loaded.executable() as executable_address:
      for ask in (executable.optimized_program, executable.serialize):
        with contextlib.suppress(PjrtError):
          ask(context.table, executable_address)

  return step


# What is created and destroyed, with the steps in each of three spans: the more,
# the less is a leak of one.
_KINDS: Mapping[str, tuple[Maker, int]] = {
    **{
        f'upload_rank_{rank}': (_uploads(rank), 10_000) for rank in _DIMS
    },
    'read': (_read, 5_000),
    'copied': (_copied, 10_000),
    'deleted': (_deleted, 10_000),
    'executed': (_executed, 5_000),
    'donated': (_donated, 5_000),
    'sharded': (_sharded, 2_500),
    'events': (_events, 10_000),
    'errors': (_errors, 10_000),
    'compiled': (_compiled, 50),
    'loaded': (_loaded, 500),
    'queried': (_queried, 1_000),
}


def _leak(context: Context, part: str) -> str:
  make, steps = _KINDS[part]
  with context.client() as client:
    grown = growth(client, steps, make(context, client))
  expect(not grown.leaks(), grown.leaks())
  return f'{2 * steps:,} steps, bytes a step: {grown}'


def _clients(context: Context, part: str) -> str:

  def step(number: int) -> None:
    with context.client():
      pass

  grown = growth(None, 40, step)
  expect(not grown.leaks(), grown.leaks())
  return str(grown)


def _children() -> list[str]:
  """Processes that the threads of this one have started."""
  return [
      child for path in Path('/proc/self/task').glob('*/children')
      for child in path.read_text(encoding='ascii').split()
  ]


def _left_over(context: Context, part: str) -> str:
  """No open file, thread or process stays behind a client that has worked."""
  held = {
      'files': lambda: os.listdir('/proc/self/fd'),
      'threads': lambda: os.listdir('/proc/self/task'),
      'processes': _children
  }[part]
  counts = []
  for _ in range(_CLIENTS):
    with context.client() as client:
      loaded = client.compile(elementwise((8,)))
      client.run(loaded, range(8), range(8))
    counts.append(len(held()))
  # The driver's own stay with the process, from the first client on.
  expect(
      len(set(counts[1:])) == 1,
      f'the {part} that are there when each of {_CLIENTS} clients was '
      f'destroyed: {counts}')
  return f'{counts[-1]} {part}'


# In each of three spans, or five.
_STEPS, _MOST_SPANS = 4_000, 5
_FILES = 4
# The quickest of the last steps over that of the first: a list that is searched
# grows it, and other work on the machine does not.
_COMPARED = 2_000
_SLOWER = 10.


def _endure(context: Context, part: str) -> str:
  with context.client() as client:
    loaded = client.compile(elementwise((1024,)))
    numbers = floats(range(1024))
    left = client.put(numbers)
    doubles = floats(2 * i for i in range(1024))
    files = len(os.listdir('/proc/self/fd'))
    # With all its room, as what grows here would be taken for a leak.
    seconds = array.array('d', [0.]) * (_MOST_SPANS * _STEPS)

    def step(number: int) -> None:
      begun = time.perf_counter()
      right = client.put(numbers)
      (result,), = loaded.execute([[left, right]])
      seconds[number] = time.perf_counter() - begun
      check_array(result, doubles, f'step {number}')
      destroy((right, result))

    grown = growth(client, _STEPS, step)
    opened = len(os.listdir('/proc/self/fd')) - files
  expect(not grown.leaks(), grown.leaks())
  expect(opened < _FILES,
         f'{opened} files are open that were not before {3 * _STEPS} steps')
  spent = [second for second in seconds if second]
  slower = min(spent[-_COMPARED:]) / min(spent[:_COMPARED])
  expect(slower < _SLOWER, f'the last steps took {slower:.1f} times as long as '
         'the first')
  return (f'{3 * _STEPS} steps, the last {slower:.2f} times as long as the '
          f'first, bytes a step: {grown}')


_long = functools.partial(Case, tier=Tier.WHOLE)
_three_minutes = functools.partial(_long, seconds=180)
_five_minutes = functools.partial(_long, seconds=300)
CASES: tuple[Case, ...] = (
    _three_minutes('leaks.kinds', 'a long run loses memory', _leak,
                   tuple(_KINDS)),
    _long('leaks.clients', 'a process that starts again loses memory',
          _clients),
    Case('leaks.behind', 'a process that starts again cannot, at some time',
         _left_over, ('files', 'threads', 'processes')),
    _five_minutes('endurance.steps',
                  'a long training runs out of memory or becomes slower',
                  _endure),
)
