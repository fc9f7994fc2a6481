"""Objects that are created and destroyed leave no memory behind."""

from __future__ import annotations

import array
from collections.abc import Callable, Mapping
import contextlib
import dataclasses
import os
from pathlib import Path
import time

from ..case import Case, expect, Failure, NotApplicable, Tier
from ..context import Context
from ..pjrt import executable
from ..pjrt.buffer import Buffer, destroy, floats
from ..pjrt.client import Client
from ..pjrt.event import Callbacks
from ..pjrt.executable import Loaded
from ..pjrt.footprint import growth
from ..pjrt.graph import elementwise, Graph
from ..pjrt.host_array import HostArray
from ..pjrt.table import PjrtError
from ..shared.sharding.text import parse_sharding

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
# What makes a step; the stack destroys behind the last one.
Maker = Callable[[Context, Client, contextlib.ExitStack], Step]


def _zeros(type_name: str, dims: tuple[int, ...]) -> HostArray:
  return HostArray(type_name, dims, bytes(HostArray.size_of(type_name, dims)))


def _put(client: Client, array: HostArray,
         stack: contextlib.ExitStack) -> Buffer:
  buffer = client.put(array)
  stack.callback(buffer.destroy)
  return buffer


def _compile(context: Context, client: Client, graph: Graph,
             stack: contextlib.ExitStack) -> Loaded:
  loaded = client.compile(context.program(graph, client))
  stack.callback(loaded.destroy)
  return loaded


def _uploads(rank: int) -> Maker:
  """Arrays of one rank, and of several types, to each device in turn."""

  def make(context: Context, client: Client, _: object) -> Step:
    arrays = [_zeros(name, _DIMS[rank]) for name in _TYPES]
    count = len(client.devices)
    return lambda number: client.put(arrays[number % len(_TYPES)], number //
                                     len(_TYPES) % count).destroy()

  return make


def _read(context: Context, client: Client,
          stack: contextlib.ExitStack) -> Step:
  shapes = list(_DIMS.values())
  buffers = [_put(client, _zeros('F32', dims), stack) for dims in shapes]

  def step(number: int) -> None:
    place = number % len(buffers)
    buffers[place].read('F32', shapes[place])

  return step


def _copied(context: Context, client: Client,
            stack: contextlib.ExitStack) -> Step:
  context.needs('Buffer_CopyToDevice')
  if len(client.devices) < 2:
    raise NotApplicable('there is one device')
  buffer = _put(client, _zeros('F32', _DIMS[2]), stack)
  return lambda number: buffer.copy_to(client.devices[-1]).destroy()


def _deleted(context: Context, client: Client, _: object) -> Step:
  """Buffers that are deleted before they are destroyed."""
  array = _zeros('F32', _DIMS[2])

  def step(number: int) -> None:
    buffer = client.put(array)
    buffer.delete()
    buffer.destroy()

  return step


def _executed(context: Context, client: Client,
              stack: contextlib.ExitStack) -> Step:
  """Programs whose results have each rank in turn."""
  programs = [(_compile(context, client, elementwise(dims),
                        stack), _put(client, _zeros('F32', dims), stack))
              for dims in _DIMS.values()]

  def step(number: int) -> None:
    loaded, argument = programs[number % len(programs)]
    destroy(loaded.execute([[argument, argument]])[0])

  return step


def _donated(context: Context, client: Client,
             stack: contextlib.ExitStack) -> Step:
  array = _zeros('F32', _DIMS[2])
  loaded = _compile(context, client, elementwise(array.dims, donated=True),
                    stack)
  other = _put(client, array, stack)

  def step(number: int) -> None:
    given = client.put(array)
    destroy((given, *loaded.execute([[given, other]])[0]))

  return step


def _sharded(context: Context, client: Client,
             stack: contextlib.ExitStack) -> Step:
  """A program on two devices, whose arguments come anew with each step."""
  if len(client.devices) < 2:
    raise NotApplicable('there is one device')
  split = parse_sharding('{devices=[2,1]<=[2]}')
  rows, columns = _DIMS[2]
  add = elementwise((2 * rows, columns), shardings=(split, split, split))
  loaded = client.compile(add.program(context.format, client.ids[:2]))
  stack.callback(loaded.destroy)
  array = _zeros('F32', _DIMS[2])

  def step(number: int) -> None:
    parts = [client.put(array, device) for device in range(2)]
    for results in loaded.execute([[part, part] for part in parts]):
      destroy(results)
    destroy(parts)

  return step


def _events(context: Context, client: Client,
            stack: contextlib.ExitStack) -> Step:
  """Events that are asked for, with a callback each."""
  buffer = _put(client, _zeros('F32', _DIMS[1]), stack)
  callbacks = Callbacks(context.table)

  def step(number: int) -> None:
    event = buffer.ready_event()
    callbacks.add(event, number)
    event.wait()
    event.destroy()
    callbacks.take_calls()

  return step


def _errors(context: Context, client: Client,
            stack: contextlib.ExitStack) -> Step:
  """Calls that are refused: to read what is gone, and to compile nothing."""
  gone = _put(client, _zeros('F32', _DIMS[1]), stack)
  gone.delete()
  good = context.program(elementwise((8,)), client)
  nothing = dataclasses.replace(good, format='a format of nobody')

  def step(number: int) -> None:
    with contextlib.suppress(PjrtError):
      gone.read('F32', _DIMS[1])
    with contextlib.suppress(PjrtError):
      client.compile(nothing)

  return step


def _compiled(context: Context, client: Client, _: object) -> Step:
  """Programs that are compiled and destroyed again."""
  # Of another shape each time, or a cache may know it.
  return lambda number: client.compile(
      context.program(elementwise((number + 1,)), client)).destroy()


def _loaded(context: Context, client: Client,
            stack: contextlib.ExitStack) -> Step:
  context.needs_serialization()
  context.needs('Executable_DeserializeAndLoad')
  loaded = _compile(context, client, elementwise((8,)), stack)
  with loaded.executable() as executable_address:
    data = executable.serialize(context.table, executable_address)
  return lambda number: client.load(data).destroy()


def _queried(context: Context, client: Client,
             stack: contextlib.ExitStack) -> Step:
  """The queries of a program."""
  loaded = _compile(context, client, elementwise((8,)), stack)

  def step(number: int) -> None:
    with loaded.executable() as executable_address:
      for ask in (executable.optimized_program, executable.serialize):
        with contextlib.suppress(PjrtError):
          ask(context.table, executable_address)

  return step


@dataclasses.dataclass(frozen=True)
class _Kind:
  """A kind of object that is created and destroyed.

  Attributes:
    steps: in each of three spans; the more, the less is a leak of one.
  """
  make: Maker
  steps: int


_KINDS: Mapping[str, _Kind] = {
    **{
        f'upload_rank_{rank}': _Kind(_uploads(rank), 10_000) for rank in _DIMS
    },
    'read': _Kind(_read, 5_000),
    'copied': _Kind(_copied, 10_000),
    'deleted': _Kind(_deleted, 10_000),
    'executed': _Kind(_executed, 5_000),
    'donated': _Kind(_donated, 5_000),
    'sharded': _Kind(_sharded, 2_500),
    'events': _Kind(_events, 10_000),
    'errors': _Kind(_errors, 10_000),
    'compiled': _Kind(_compiled, 50),
    'loaded': _Kind(_loaded, 500),
    'queried': _Kind(_queried, 1_000),
}


def _leak(context: Context, part: str) -> str:
  kind = _KINDS[part]
  with context.client() as client, contextlib.ExitStack() as stack:
    grown = growth(client, kind.steps, kind.make(context, client, stack))
  for leak in grown.leaks():
    raise Failure(leak)
  return f'{2 * kind.steps:,} steps, bytes a step: {grown}'


def _clients(context: Context, part: str) -> str:

  def step(number: int) -> None:
    with context.client():
      pass

  grown = growth(None, 40, step)
  for leak in grown.leaks():
    raise Failure(leak)
  return str(grown)


def _children() -> list[str]:
  """Processes that the threads of this one have started."""
  return [
      child for path in Path('/proc/self/task').glob('*/children')
      for child in path.read_text(encoding='ascii').split()
  ]


def _left_over(context: Context, part: str) -> str:
  """No open file and no process stays behind a client."""

  def held() -> int:
    if part == 'processes':
      return len(_children())
    return len(os.listdir('/proc/self/fd'))

  counts = []
  for _ in range(_CLIENTS):
    with context.client():
      pass
    counts.append(held())
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


def _open_files() -> int:
  return len(os.listdir('/proc/self/fd'))


def _endure(context: Context, part: str) -> str:
  with context.client() as client:
    loaded = client.compile(context.program(elementwise((1024,)), client))
    numbers = floats(range(1024))
    left = client.put(numbers)
    doubles = floats(2 * i for i in range(1024))
    files = _open_files()
    # With all its room, as what grows here would be taken for a leak.
    seconds = array.array('d', [0.]) * (_MOST_SPANS * _STEPS)

    def step(number: int) -> None:
      begun = time.perf_counter()
      right = client.put(numbers)
      (result,), = loaded.execute([[left, right]])
      seconds[number] = time.perf_counter() - begun
      difference = doubles.first_difference(result.read('F32', (1024,)))
      expect(not difference, f'step {number}: {difference}')
      destroy((right, result))

    grown = growth(client, _STEPS, step)
    opened = _open_files() - files
    left.destroy()
    loaded.destroy()
  for leak in grown.leaks():
    raise Failure(leak)
  expect(opened < _FILES,
         f'{opened} files are open that were not before {3 * _STEPS} steps')
  spent = [second for second in seconds if second]
  slower = min(spent[-_COMPARED:]) / min(spent[:_COMPARED])
  expect(slower < _SLOWER, f'the last steps took {slower:.1f} times as long as '
         'the first')
  return (f'{3 * _STEPS} steps, the last {slower:.2f} times as long as the '
          f'first, bytes a step: {grown}')


CASES: tuple[Case, ...] = (
    Case(
        'leaks.kinds',
        'a long run loses memory',
        _leak,
        tuple(_KINDS),
        seconds=180,
        tier=Tier.WHOLE),
    Case(
        'leaks.clients',
        'a process that starts again loses memory',
        _clients,
        tier=Tier.WHOLE),
    Case('leaks.behind', 'a process that starts again cannot, at some time',
         _left_over, ('files', 'processes')),
    Case(
        'endurance.steps',
        'a long training runs out of memory or becomes slower',
        _endure,
        seconds=300,
        tier=Tier.WHOLE),
)
