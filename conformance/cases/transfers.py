"""Copies to the devices and back, bit for bit, and results that are read."""

from __future__ import annotations

import functools

import numpy as np

from ..case import Case, expect, Needs, NotApplicable
from ..context import Context
from ..pjrt.graph import elementwise
from ..pjrt.host_array import HostArray, TYPES
from ..pjrt.buffer import destroy
from ..pjrt.table import PjrtError
from ..torch_modules import torch, torch_xla, xs
from ..torch_session import (annotated, check_equal, check_shards, DATA, MODEL,
                             SPECS)
from .checks import check_array, check_floats

# Odd sizes, one element, none, and every rank to six.
_SHAPES = ((), (1,), (7,), (3, 5), (0, 4), (3, 4, 5), (2, 3, 4, 3),
           (2, 3, 1, 5, 2), (2, 1, 3, 2, 2, 3), (1025,))
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
      check_array(buffer, sent, f'device {number}')
      buffer.destroy()
  return f'{len(sent.data):,} bytes on {len(client.ids)} device(s)'


# As torch has views of a matrix: some leave elements out, some repeat them.
_VIEWS = {
    'transposed': lambda matrix: matrix.T,
    'permuted': lambda matrix: matrix.reshape(4, 3, 10).transpose(2, 0, 1),
    'sliced': lambda matrix: matrix[1::3, 2:9:2],
    'repeated': lambda matrix: np.broadcast_to(matrix[:, :1], matrix.shape),
}


def _strides(context: Context, part: str) -> str:
  """A view, of elements of each width, read back and used by a program."""
  client = context.kept_client()
  for type_name in ('S8', 'S16', 'S32', 'S64'):
    sent = HostArray.random_bits(type_name, (12, 10), context.seed)
    matrix = sent.numbers()
    view = _VIEWS[part](matrix)
    start = view.ctypes.data - matrix.ctypes.data
    name = f'{type_name}{list(view.shape)}: byte_strides {view.strides} '
    buffer = client.put(
        HostArray(type_name, view.shape, sent.data[start:]),
        strides=view.strides)
    check_array(buffer, HostArray.from_numbers(type_name, view),
                f'{name}were not heeded')
    loaded = client.compile(elementwise(view.shape, dtype=type_name.lower()))
    (result,), = loaded.execute([[buffer, buffer]])
    check_array(result, HostArray.from_numbers(type_name, view + view),
                f'{name}are heeded when it is read back, and not by a program')
  return 'elements of 1, 2, 4 and 8 bytes'


def _copies_between_devices(context: Context, part: str) -> str:
  """Copies buffers of each type and shape to the next device, in turn."""
  context.needs('Buffer_CopyToDevice')
  client = context.kept_client()
  count = len(client.ids)
  tried = 0
  for type_name in TYPES:
    for dims in _SHAPES:
      device, following = tried % count, (tried + 1) % count
      sent = HostArray.random_bits(type_name, dims, context.seed)
      try:
        original = client.put(sent, device)
      except PjrtError:
        break  # That it does not take the type is told elsewhere.
      tried += 1
      copy = original.copy_to(client.devices[following])
      check_array(
          copy, original.read(type_name, dims),
          f'{type_name}{list(dims)} from device {client.ids[device]} to '
          f'{client.ids[following]}')
      destroy((original, copy))
  return f'{tried} copies between {count} devices'


def _reused(context: Context, part: str) -> str:
  """A buffer's content is its own, whatever its memory held before."""
  with context.client() as client:
    for number in range(_ROUNDS):
      sent = HostArray.random_bits('F32', (64,), number)
      other = HostArray.random_bits('F32', (64,), number + _ROUNDS)
      first, two = client.put(sent), client.put(other)
      for buffer, wanted in ((first, sent), (two, other), (first, sent)):
        check_array(buffer, wanted, f'read in turn, in round {number}')
      destroy((first, two))
  return f'{_ROUNDS} rounds'


_case = functools.partial(Case, compiles=False)

_EXECUTIONS = 20
# More than a pool or a table of a byte's numbers holds.
_ALIVE = 300
_SPECS = {**SPECS, 'turned_none': ((MODEL, DATA), None)}


def _fresh(context: Context, part: str) -> str:
  """Each result is that of its own execution."""
  with context.client() as client:
    loaded = client.compile(elementwise((4,)))
    for number in range(_EXECUTIONS):
      given = [client.put_floats([number] * 4), client.put_floats(range(4))]
      (result,), = loaded.execute([given])
      for reading in ('first', 'second'):
        check_floats(result, range(number, number + 4),
                     f'the {reading} reading of execution {number} gave')
      destroy((*given, result))
  return f'{_EXECUTIONS} executions'


def _alive(context: Context, part: str) -> str:
  """Results that all live at once are read when the last one is there."""
  client = context.kept_client()
  loaded = client.compile(elementwise((4,)))
  right = client.put_floats(range(4))
  results = []
  for number in range(_ALIVE):
    left = client.put_floats([number] * 4)
    results += loaded.execute([[left, right]])[0]
    left.destroy()
  wanted = [tuple(float(n + i) for i in range(4)) for n in range(_ALIVE)]
  for number, result in enumerate(results):
    actual = result.floats(4)
    whose = (f', which is result {wanted.index(actual)}: a later one has '
             'overwritten it' if actual in wanted else '')
    expect(
        actual == wanted[number], f'of {_ALIVE} results that live at once '
        f'result {number} is {actual}{whose}')
  return f'{_ALIVE} results at once'


def _updated_in_place(context: Context, part: str) -> str:
  """A tensor that a training loop updates is read as it is now."""
  session = context.torch()
  mesh = session.grid()
  host = session.even_numbers()
  weight = session.to_device(host)
  xs.mark_sharding(weight, mesh, (MODEL, None))
  for number in range(_EXECUTIONS):
    weight.add_(1)
    torch_xla.sync(wait=True)
    check_equal(weight.cpu(), host + number + 1, f'after update {number}')
  return f'{_EXECUTIONS} updates'


def _sharded(context: Context, part: str) -> str:
  """The whole of a sharded tensor, and what each device holds of it."""
  session = context.torch()
  mesh, spec = session.grid(), _SPECS[part]
  for kind in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
    host = (session.even_numbers() % 251).to(kind)
    tensor = annotated(session.to_device(host), mesh, spec)
    check_shards(tensor, host, mesh, spec, str(kind))
    check_equal(tensor.cpu(), host, f'{kind} as a whole')
    result = annotated(tensor.clone() if kind is torch.bool else tensor * 1,
                       mesh, spec)
    check_shards(result, host, mesh, spec, f'{kind}, computed')
    check_equal(result.cpu(), host, f'{kind} as a whole, computed')
  return 'float32, bfloat16, int64, bool'


_sharded_case = functools.partial(Case, devices=2, needs=Needs.TORCH_XLA)
CASES: tuple[Case, ...] = (
    _case('transfers.types', 'tensors of a type change on their way', _types,
          tuple(TYPES)),
    _case('transfers.large', 'large tensors change on their way', _large),
    Case('transfers.strides', 'views and transposed tensors arrive wrong',
         _strides, tuple(_VIEWS)),
    _case(
        'transfers.between',
        'copies between devices are wrong',
        _copies_between_devices,
        devices=2),
    _case('transfers.reused', 'a tensor is read as another one that was in '
          'its place', _reused),
    Case('readback.fresh', 'a result is that of an earlier step', _fresh),
    Case('readback.alive', 'a result is overwritten by a later step', _alive),
    Case(
        'readback.in_place',
        'a weight is read as it was before its update',
        _updated_in_place,
        needs=Needs.TORCH_XLA),
    _sharded_case('readback.sharded',
                  'checkpoints and losses of sharded tensors are wrong',
                  _sharded, tuple(_SPECS)),
)
