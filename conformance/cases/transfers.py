"""Copies to the devices and back, bit for bit."""

from __future__ import annotations

import functools

from ..case import Case, expect, NotApplicable
from ..context import Context
from ..pjrt.buffer import Buffer
from ..pjrt.host_array import HostArray, TYPES
from ..pjrt.numbers import destroy
from ..pjrt.table import PjrtError

# Odd sizes, one element, none, and a rank of five.
_SHAPES = ((), (1,), (7,), (3, 5), (0, 4), (2, 3, 1, 5, 2), (1025,))
# Without which torch's own types do not work.
_REQUIRED = ('PRED', 'S8', 'S16', 'S32', 'S64', 'U8', 'F16', 'BF16', 'F32')
_EMULATED = ('F64', 'C128')
_LARGE = (3, 1 << 20)
_ROUNDS = 3


def _types(context: Context, part: str) -> str:
  """Every shape to every device and back, in one type."""
  with context.client() as client:
    for device, number in enumerate(client.ids):
      for dims in _SHAPES:
        sent = HostArray.random_bits(part, dims, number)
        try:
          buffer = client.put(sent, device)
        except PjrtError as e:
          if part in _REQUIRED:
            raise
          raise NotApplicable(f'the plugin does not take {part}: {e}') from e
        difference = sent.first_difference(buffer.read(part, dims))
        buffer.destroy()
        if difference and part in _EMULATED and context.capabilities.get(
            'platform') == 'tpu':
          raise NotApplicable('a TPU keeps a float64 as two float32')
        expect(not difference,
               f'{part}{list(dims)} on device {number}: {difference}')
    return f'{len(_SHAPES)} shapes on {len(client.ids)} device(s)'


def _large(context: Context, part: str) -> str:
  with context.client() as client:
    sent = HostArray.random_bits('F32', _LARGE, context.seed)
    for device, number in enumerate(client.ids):
      buffer = client.put(sent, device)
      difference = sent.first_difference(buffer.read('F32', _LARGE))
      buffer.destroy()
      expect(not difference, f'device {number}: {difference}')
  return f'{len(sent.data):,} bytes on {len(client.ids)} device(s)'


def _strides(context: Context, part: str) -> str:
  """A matrix that lies transposed in the host's memory, as torch's views do."""
  rows, columns = 5, 3
  with context.client() as client:
    lying = HostArray.random_bits('S32', (columns, rows), context.seed)
    words = [lying.data[i:i + 4] for i in range(0, len(lying.data), 4)]
    expected = HostArray(
        'S32', (rows, columns), b''.join(
            words[c * rows + r] for r in range(rows) for c in range(columns)))
    buffer = client.put(
        HostArray('S32', (rows, columns), lying.data), strides=(4, 4 * rows))
    difference = expected.first_difference(buffer.read('S32', (rows, columns)))
    buffer.destroy()
    expect(not difference,
           f'byte_strides {(4, 4 * rows)} were not heeded: {difference}')
  return 'a transposed matrix'


def _copies_between_devices(context: Context, part: str) -> str:
  """Copies buffers from each device to the next, and on to the first."""
  context.needs('Buffer_CopyToDevice')
  with context.client() as client:
    count = len(client.ids)
    for device, number in enumerate(client.ids):
      following = (device + 1) % count
      sent = HostArray.random_bits('F32', (3, 5), context.seed + device)
      original = client.put(sent, device)
      copy = Buffer(
          context.table,
          context.table.call(
              'Buffer_CopyToDevice',
              buffer=original.address,
              dst_device=client.devices[following]).dst_buffer)
      difference = sent.first_difference(copy.read('F32', (3, 5)))
      destroy((original, copy))
      expect(not difference,
             f'device {number} to {client.ids[following]}: {difference}')
    return f'between {count} devices'


def _reused(context: Context, part: str) -> str:
  """A buffer's content is its own, whatever its memory held before."""
  with context.client() as client:
    for number in range(_ROUNDS):
      sent = HostArray.random_bits('F32', (64,), number)
      other = HostArray.random_bits('F32', (64,), number + _ROUNDS)
      first, two = client.put(sent), client.put(other)
      for buffer, wanted in ((first, sent), (two, other), (first, sent)):
        difference = wanted.first_difference(buffer.read('F32', (64,)))
        expect(not difference, f'read in turn, in round {number}: {difference}')
      first.destroy()
      two.destroy()
  return f'{_ROUNDS} rounds'


_case = functools.partial(Case, compiles=False)
CASES: tuple[Case, ...] = (
    _case('transfers.types', 'tensors of a type change on their way', _types,
          tuple(TYPES)),
    _case('transfers.large', 'large tensors change on their way', _large),
    _case('transfers.strides', 'views and transposed tensors arrive wrong',
          _strides),
    _case(
        'transfers.between',
        'copies between devices are wrong',
        _copies_between_devices,
        devices=2),
    _case('transfers.reused', 'a tensor is read as another one that was in '
          'its place', _reused),
)
