"""Copies to the devices and back, bit for bit, and results that are read."""

from __future__ import annotations

import ctypes
import functools

import numpy as np

from ..case import Case, expect, Needs, NotApplicable
from ..context import Context
from ..pjrt.graph import elementwise
from ..pjrt.host_array import floats, HostArray, TYPES
from ..pjrt.buffer import Buffer, destroy
from ..pjrt.table import PjrtError, pointers
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
        told = buffer.type_number
        expect(told == sent.type_number,
               f'{part} says that it is of type {told}')
        buffer.destroy()
        if difference and part in _EMULATED and context.capabilities.get(
            'platform') == 'tpu':
          raise NotApplicable('a TPU keeps a float64 as two float32')
        expect(not difference,
               f'{part}{list(dims)} on device {number}: {difference}')
    return f'{len(_SHAPES)} shapes on {len(client.ids)} device(s)'


# As torch has views of a matrix: some leave elements out, some repeat them.
_MATRIX = (60, 70)  # More than a page, and no multiple of a tile.
_VIEWS = {
    'transposed':
        lambda matrix: matrix.T,
    'permuted':
        lambda matrix: matrix.reshape(4, 15, 70).transpose(2, 0, 1),
    'channels_last':
        lambda matrix: matrix.reshape(4, 5, 21, 10).transpose(0, 3, 1, 2),
    'five_ranks':
        lambda matrix: matrix.reshape(4, 3, 5, 7, 10).transpose(4, 0, 2, 3, 1),
    'sliced':
        lambda matrix: matrix[1::3, 2:9:2],
    'repeated':
        lambda matrix: np.broadcast_to(matrix[:, :1], matrix.shape),
}


def _strides(context: Context, part: str) -> str:
  """A view, of elements of each width, read back and used by a program.

  Of each width on another device.
  """
  client = context.kept_client()
  for number, type_name in enumerate(('S8', 'S16', 'S32', 'S64')):
    device = number % len(client.ids)
    sent = HostArray.random_bits(type_name, _MATRIX, context.seed)
    matrix = sent.numbers()
    view = _VIEWS[part](matrix)
    start = view.ctypes.data - matrix.ctypes.data
    name = f'{type_name}{list(view.shape)}: byte_strides {view.strides} '
    buffer = client.put(
        HostArray(type_name, view.shape, sent.data[start:]),
        device,
        strides=view.strides)
    check_array(buffer, HostArray.from_numbers(type_name, view),
                f'{name}were not heeded')
    loaded = client.compile(
        elementwise(view.shape, dtype=type_name.lower()), [client.ids[device]])
    (result,), = loaded.execute([[buffer, buffer]])
    check_array(result, HostArray.from_numbers(type_name, view + view),
                f'{name}are heeded when it is read back, and not by a program')
  return 'elements of 1, 2, 4 and 8 bytes'


def _copies_between_devices(context: Context, part: str) -> str:
  """Copies buffers of each type and shape from each device to each other.

  By the device and by its memory, which torch_xla names.
  """
  context.needs('Buffer_CopyToDevice')
  client = context.kept_client()
  places = {'device': client.devices}
  if context.table.has('Buffer_CopyToMemory'):
    places['memory'] = client.memories()
  count = len(client.ids)
  tried = 0
  for type_name in TYPES:
    for dims in _SHAPES:
      device = tried % count
      following = (device + 1 + tried // count % (count - 1)) % count
      sent = HostArray.random_bits(type_name, dims, context.seed)
      try:
        original = client.put(sent, device)
      except PjrtError:
        break  # That it does not take the type is told elsewhere.
      tried += 1
      wanted = original.read(type_name, dims)
      for kind, each in places.items():
        check_array(
            original.copy_to(each[following], kind), wanted,
            f'{type_name}{list(dims)} from device {client.ids[device]} to '
            f'{client.ids[following]} by its {kind}')
      client.release()
  return f'{tried} copies between {count} devices'


def _by_memory(context: Context, part: str) -> str:
  """Uploads that name a device's memory, as torch_xla's do."""
  for function in ('Device_AddressableMemories', 'Buffer_Memory'):
    context.needs(function)
  client, table = context.kept_client(), context.table
  for number, memory in enumerate(client.memories()):
    device = client.devices[number]
    name = f'the default memory of device {client.ids[number]}'
    own = table.call('Device_AddressableMemories', device=device)
    expect(
        memory in pointers(own.memories, own.num_memories),
        f'{name} is none of those that it addresses')
    sent = HostArray.random_bits('F32', (_COUNT,), number)
    call = client.upload(sent.data, sent.type_number, sent.dims)
    call.device, call.memory = None, memory
    buffer = client.send(call)
    check_array(buffer, sent, f'what was sent to {name}')
    expect(
        (buffer.device, buffer.call('Memory').memory) == (device, memory),
        f'what was sent to {name} is on another device, or in another memory')
  return f'{len(client.ids)} device(s)'


def _at_once(context: Context, part: str) -> str:
  """Uploads, executions and reads, all begun before any is awaited."""
  client = context.kept_client()
  loaded = client.compile(elementwise((_COUNT,)))
  wanted = [floats([number] * _COUNT) for number in range(2 * _EXECUTIONS)]
  calls = [
      client.upload(array.data, array.type_number, array.dims)
      for array in wanted[::2]
  ]
  buffers = []
  for call in calls:
    context.table.call_with('Client_BufferFromHostBuffer', call)
    buffers.append(Buffer(client, call.buffer))
  one = client.put_floats([1.] * _COUNT)
  for buffer in buffers[:]:
    buffers += loaded.start([[buffer, one]]).outputs[0]
  rooms = [(ctypes.c_char * (4 * _COUNT))() for _ in buffers]
  reads = [buffer.copy_into(room) for buffer, room in zip(buffers, rooms)]
  for event in reversed(reads):
    event.wait()
    event.destroy()
  for call in calls:
    context.table.await_event(call.done_with_host_buffer)
  for number, array in enumerate(wanted[::2] + wanted[1::2]):
    expect(
        bytes(rooms[number]) == array.data, f'of {len(rooms)} arrays that are '
        f'read at once that of number {number} is wrong')
  return f'{len(calls)} uploads and executions, {len(reads)} reads'


_case = functools.partial(Case, compiles=False)

_COUNT = 257
_EXECUTIONS = 20
# More than a pool, or a table of a byte's numbers or of ten bits', holds.
_ALIVE = 1100
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
  arguments = [client.put_floats([number] * 4) for number in range(_ALIVE)]
  results = [loaded.execute([[left, right]])[0][0] for left in arguments]
  for kind, buffers, more in (('argument', arguments, 0), ('result', results,
                                                           1)):
    wanted = {
        tuple(float(number + more * i) for i in range(4)):
            number for number in range(_ALIVE)
    }
    for number, buffer in enumerate(buffers):
      actual = buffer.floats(4)
      whose = (f', which is {kind} {wanted[actual]}: a later one has '
               'overwritten it' if actual in wanted else '')
      expect(
          wanted.get(actual) == number, f'of {_ALIVE} {kind}s that live at '
          f'once {kind} {number} is {actual}{whose}')
  return f'{_ALIVE} arguments and results at once'


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
    Case('transfers.strides', 'views and transposed tensors arrive wrong',
         _strides, tuple(_VIEWS)),
    _case(
        'transfers.between',
        'copies between devices are wrong',
        _copies_between_devices,
        devices=2),
    _case('transfers.by_memory', 'tensors go to another device', _by_memory),
    Case('transfers.at_once',
         'tensors are read as others that are on their way', _at_once),
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
