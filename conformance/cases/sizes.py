"""Arrays of a few bytes to 2 GiB, every byte of which depends on its place.

What a plugin does wrong from some size on, an array above that size shows: the
largest finds all limits below it.
"""

from __future__ import annotations

import functools

import numpy as np

from ..case import Case, expect, NotApplicable, Tier
from ..context import Context
from ..pjrt.buffer import Buffer
from ..pjrt.client import Client
from ..pjrt.graph import elementwise
from ..pjrt.host_array import HostArray
from ..pjrt.numbers import destroy
from ..pjrt.table import PjrtError

_MIB = 1 << 20
# Elements of 4 bytes above a power of two, so that the tail fills no vector.
_MORE = 3
# The last one is beyond what 31 bits count, in bytes: 9 GB of the host's memory.
_TRANSFERS = ('1 MiB', '65 MiB', '257 MiB', '2049 MiB')
# Bytes of the host for each that is sent: three copies, and what is spare.
_COPIES = 4


def _pattern(count: int, number: int) -> np.ndarray:
  """uint32 that are all different, and other ones for other small numbers."""
  odd = np.uint32(2654435761)  # A product with it is another one for each.
  return (np.arange(count, dtype='<u4') + np.uint32(number << 24)) * odd


def _array(words: np.ndarray) -> HostArray:
  return HostArray('U32', words.shape, words.tobytes())


def _count(part: str) -> int:
  """The number of elements of a part's array."""
  return int(part.split()[0]) * _MIB // 4 + _MORE


def _fits(copies: int, count: int) -> None:
  """Checks that the host has the memory.

  Raises:
    NotApplicable: it has not.
  """
  needed = copies * 4 * count
  with open('/proc/meminfo', encoding='ascii') as file:
    lines = dict(line.split(':') for line in file)
  available = int(lines['MemAvailable'].split()[0]) << 10
  if needed > available:
    raise NotApplicable(f'it takes {needed / _MIB:,.0f} MiB of the host, and '
                        f'{available / _MIB:,.0f} are available')


def _check(buffer: Buffer, sent: HostArray, label: str) -> None:
  difference = sent.first_difference(buffer.read('U32', sent.dims))
  expect(not difference, f'{len(sent.data):,} bytes {label}: {difference}')


def _put(client: Client, array: HostArray, device: int = 0) -> Buffer:
  try:
    return client.put(array, device)
  except PjrtError as e:
    if e.code == 'RESOURCE_EXHAUSTED':
      raise NotApplicable(f'the device has no room: {e}') from e
    raise


def _small(client: Client) -> None:
  """Sizes around each power of two, to the first device."""
  for exponent in range(1, 19):
    for more in (-1, 0, 1):
      sent = _array(_pattern((1 << exponent) + more, exponent))
      buffer = client.put(sent)
      _check(buffer, sent, 'to device 0 and back')
      buffer.destroy()


def _transfers(context: Context, part: str) -> str:
  """To the first device and back."""
  client = context.kept_client()
  count = _count(part)
  _fits(_COPIES, count)
  if part == _TRANSFERS[0]:
    _small(client)
  sent = _array(_pattern(count, 0))
  buffer = _put(client, sent)
  _check(buffer, sent, 'to the first device and back')
  buffer.destroy()
  return f'{len(sent.data):,} bytes'


def _shards(context: Context, part: str) -> str:
  """To each device its own, and all of them back."""
  client = context.kept_client()
  count = _count(part)
  _fits(len(client.ids) + _COPIES, count)
  buffers = [
      _put(client, _array(_pattern(count, device)), device)
      for device in range(len(client.ids))
  ]
  for device, buffer in enumerate(buffers):
    _check(buffer, _array(_pattern(count, device)),
           f'to device {client.ids[device]} and back')
  destroy(buffers)
  return f'{4 * count:,} bytes on each of {len(client.ids)} devices'


def _copies(context: Context, part: str) -> str:
  """From the first device to the second one, and on to the host."""
  context.needs('Buffer_CopyToDevice')
  client = context.kept_client()
  count = _count(part)
  _fits(_COPIES + 1, count)
  sent = _array(_pattern(count, 1))
  original = _put(client, sent)
  copy = original.copy_to(client.devices[1])
  _check(copy, sent, 'between devices')
  destroy((original, copy))
  return f'{len(sent.data):,} bytes'


def _results(context: Context, part: str) -> str:
  """A sum of two arrays of a size."""
  client = context.kept_client()
  count = _count(part)
  _fits(_COPIES + 2, count)
  program = context.program(elementwise((count,), dtype='u32'), client)
  left, right = _pattern(count, 2), _pattern(count, 3)
  loaded = client.compile(program)
  buffers = [_put(client, _array(words)) for words in (left, right)]
  (result,), = loaded.execute([buffers])
  _check(result, _array(left + right), 'as a sum')
  destroy((*buffers, result))
  loaded.destroy()
  return f'{4 * count:,} bytes'


def _empty(context: Context, part: str) -> str:
  """A program of an array without elements."""
  client = context.kept_client()
  dims = tuple(map(int, part.split('x')))
  loaded = client.compile(context.program(elementwise(dims), client))
  given = client.put(HostArray('F32', dims, b''))
  (result,), = loaded.execute([[given, given]])
  read = result.read('F32', dims)
  expect(not read.data, f'a sum of empty arrays has {len(read.data)} bytes')
  destroy((given, result))
  loaded.destroy()
  return 'no bytes'


_case = functools.partial(
    Case,
    seconds=300,
    part_tiers={
        **dict.fromkeys(_TRANSFERS[1:], Tier.WHOLE), _TRANSFERS[3]: Tier.NIGHTLY
    })
CASES: tuple[Case, ...] = (
    _case(
        'sizes.transfers',
        'tensors change on their way from some size on',
        _transfers,
        _TRANSFERS,
        compiles=False),
    _case(
        'sizes.shards',
        'shards of large tensors change on their way',
        _shards,
        _TRANSFERS[:2],
        devices=2,
        compiles=False),
    _case(
        'sizes.copies',
        'copies of large tensors between devices are wrong',
        _copies,
        _TRANSFERS[:3],
        devices=2,
        compiles=False),
    Case('sizes.empty', 'a batch without elements ends the process', _empty,
         ('0', '0x4', '3x0x2')),
    _case('sizes.results', 'large results are wrong', _results, _TRANSFERS[:3]),
)
