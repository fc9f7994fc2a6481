"""Arrays of a few bytes to 2 GiB, and programs of many arguments and results.

Every byte of an array depends on its place. What a plugin does wrong from some
size on, an array above that size shows: the largest finds all limits below it.
"""

from __future__ import annotations

from collections.abc import Sequence
import functools

import numpy as np

from ..case import Case, Failure, NotApplicable, Tier
from ..context import Context
from ..pjrt.buffer import Buffer
from ..pjrt.client import Client
from ..pjrt.graph import Array, elementwise, Graph, Step
from ..pjrt.host_array import HostArray
from .checks import check_array, skipped_if

_MIB = 1 << 20
# Elements of 4 bytes above a power of two, so that the tail fills no vector.
_MORE = 3
# The last one is beyond what 31 bits count, in bytes: 9 GB of the host's memory.
_TRANSFERS = ('1 MiB', '65 MiB', '257 MiB', '2049 MiB')
# Bytes of the host for each that is sent: three copies, and what is spare.
_COPIES = 4


def _pattern(count: int, number: int) -> HostArray:
  """uint32 that are all different, and other ones for other small numbers."""
  odd = np.uint32(2654435761)  # A product with it is another one for each.
  words = (np.arange(count, dtype='<u4') + np.uint32(number << 24)) * odd
  return HostArray.from_numbers('U32', words)


def _begin(context: Context, part: str, copies: int) -> tuple[Client, int]:
  """The client, and the number of elements of a part's array, if they fit."""
  count = int(part.split()[0]) * _MIB // 4 + _MORE
  needed = copies * 4 * count
  with open('/proc/meminfo', encoding='ascii') as file:
    lines = dict(line.split(':') for line in file)
  available = int(lines['MemAvailable'].split()[0]) << 10
  if needed > available:
    raise NotApplicable(f'it takes {needed / _MIB:,.0f} MiB of the host, and '
                        f'{available / _MIB:,.0f} are available')
  return context.kept_client(), count


def _check(buffer: Buffer, sent: HostArray, label: str) -> None:
  check_array(buffer, sent, f'{len(sent.data):,} bytes {label}')


def _put(client: Client, array: HostArray, device: int = 0) -> Buffer:
  with skipped_if('RESOURCE_EXHAUSTED', 'the device has no room: '):
    return client.put(array, device)


def _small(client: Client) -> None:
  """Sizes around each power of two, to the first device."""
  for exponent in range(1, 19):
    for more in (-1, 0, 1):
      sent = _pattern((1 << exponent) + more, exponent)
      buffer = client.put(sent)
      _check(buffer, sent, 'to device 0 and back')
      buffer.destroy()


def _transfers(context: Context, part: str) -> str:
  """To the first device and back."""
  client, count = _begin(context, part, _COPIES)
  if part == _TRANSFERS[0]:
    _small(client)
  sent = _pattern(count, 0)
  _check(_put(client, sent), sent, 'to the first device and back')
  return f'{len(sent.data):,} bytes'


def _shards(context: Context, part: str) -> str:
  """To each device its own, and all of them back."""
  devices = len(context.kept_client().ids)
  client, count = _begin(context, part, devices + _COPIES)
  buffers = [
      _put(client, _pattern(count, device), device) for device in range(devices)
  ]
  for device, buffer in enumerate(buffers):
    _check(buffer, _pattern(count, device),
           f'to device {client.ids[device]} and back')
  return f'{4 * count:,} bytes on each of {devices} devices'


def _copies(context: Context, part: str) -> str:
  """From the first device to the second one, and on to the host."""
  context.needs('Buffer_CopyToDevice')
  client, count = _begin(context, part, _COPIES + 1)
  sent = _pattern(count, 1)
  copy = _put(client, sent).copy_to(client.devices[1])
  _check(copy, sent, 'between devices')
  return f'{len(sent.data):,} bytes'


def _results(context: Context, part: str) -> str:
  """A sum of two arrays of a size."""
  client, count = _begin(context, part, _COPIES + 2)
  left, right = _pattern(count, 2), _pattern(count, 3)
  loaded = client.compile(elementwise((count,), dtype='u32'))
  arguments = [_put(client, left), _put(client, right)]
  (result,), = loaded.execute([arguments])
  wanted = HostArray.from_numbers('U32', left.numbers() + right.numbers())
  _check(result, wanted, 'as a sum')
  if part == _TRANSFERS[0]:
    for argument, sent in zip(arguments, (left, right)):
      _check(argument, sent, 'as an argument after the sum')
  return f'{4 * count:,} bytes'


def _empty(context: Context, part: str) -> str:
  """A program of arrays without elements, whose product is a sum of nothing."""
  if part == 'dot':
    rows, columns, result = (
        Array('f32', dims) for dims in ((3, 0), (0, 5), (3, 5)))
    graph = Graph((rows, columns), (Step('dot', result, (0, 1)),), (2,))
  else:
    graph = elementwise(tuple(map(int, part.split('x'))))
  client, result = context.kept_client(), graph.values[-1]
  given = [client.put(HostArray('F32', p.dims, b'')) for p in graph.parameters]
  (buffer,), = client.compile(graph).execute([given])
  check_array(buffer, HostArray('F32', result.dims, bytes(4 * result.count)),
              'what is made of empty arrays')
  return f'{result.count} zeros'


_case = functools.partial(
    Case,
    seconds=300,
    part_tiers={
        **dict.fromkeys(_TRANSFERS[1:], Tier.WHOLE), _TRANSFERS[3]: Tier.NIGHTLY
    })

# One more than where a table of a fixed size, or a counter, may end.
_COUNTS = (65, 257, 1025, 4097)
# A concatenation takes compilers a time that grows with the square.
_JOINED = 1025
_ONE = Array('f32', (1,))


def _arguments(context: Context, part: str) -> str:
  """Each of `count` arguments has its place in one result."""
  count = int(part)
  joined = Array('f32', (count,))
  graph = Graph((_ONE,) * count,
                (Step('concatenate', joined, tuple(range(count))),), (count,))
  actual, = _run(context.kept_client(), graph, 1)
  _check_numbers(actual, tuple(float(i) for i in range(count)), 'argument')
  return f'{count} arguments of one program'


def _many_results(context: Context, part: str) -> str:
  """As many results, each of two arguments; but the most on one device."""
  count = int(part)
  client = context.kept_client()
  graph = Graph(
      (_ONE,) * count,
      tuple(Step('add', _ONE, (i, (i + 1) % count)) for i in range(count)),
      tuple(range(count, 2 * count)))
  devices = 1 if count == _COUNTS[-1] else len(client.ids)
  for device, actual in enumerate(_run(client, graph, devices)):
    first = device * count
    _check_numbers(
        actual,
        tuple(float(2 * first + i + (i + 1) % count) for i in range(count)),
        f'device {client.ids[device]}: result')
  return f'{count} arguments and results on {devices} device(s)'


def _run(client: Client, graph: Graph, devices: int) -> list[tuple[float, ...]]:
  """The numbers in the results of each device, one after the other.

  The arguments are whole numbers, on each device those after the last one's.
  """
  count = len(graph.parameters)
  loaded = client.compile(graph, client.ids[:devices])
  outputs = loaded.execute(
      [[client.put_floats([device * count + i], device)
        for i in range(count)]
       for device in range(devices)], len(graph.results))
  length = graph.values[graph.results[0]].count
  return [
      tuple(number
            for buffer in of_device
            for number in buffer.floats(length))
      for of_device in outputs
  ]


def _check_numbers(actual: Sequence[float], expected: Sequence[float],
                   label: str) -> None:
  wrong = [i for i, (a, b) in enumerate(zip(actual, expected)) if a != b]
  if wrong:
    first = wrong[0]
    whose = [i for i, value in enumerate(expected) if value == actual[first]]
    raise Failure(
        f'{len(wrong)} of {len(expected)} are wrong: {label} [{first}] is '
        f'[{actual[first]}] in place of [{expected[first]}]' +
        (f'; that is what {label} {whose} has to be' if whose else ''))


_moved = functools.partial(_case, compiles=False)
_between = functools.partial(_moved, devices=2)
CASES: tuple[Case, ...] = (
    _moved('sizes.transfers', 'tensors change on their way from some size on',
           _transfers, _TRANSFERS),
    _between('sizes.shards', 'shards of large tensors change on their way',
             _shards, _TRANSFERS[:2]),
    _between('sizes.copies',
             'copies of large tensors between devices are wrong', _copies,
             _TRANSFERS[:3]),
    Case('sizes.empty', 'a batch without elements ends the process', _empty,
         ('0', '0x4', '3x0x2', 'dot')),
    _case('sizes.results', 'large results are wrong', _results, _TRANSFERS[:3]),
    Case('counts.arguments', 'models of many weights get the wrong ones',
         _arguments, tuple(str(c) for c in _COUNTS if c <= _JOINED)),
    Case(
        'counts.results',
        'models of many weights get the wrong ones, or lose updates',
        _many_results,
        tuple(map(str, _COUNTS)),
        part_tiers={str(_COUNTS[-1]): Tier.WHOLE},
        seconds=120),
)
