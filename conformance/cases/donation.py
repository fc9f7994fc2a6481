"""Buffers that a program may write its results into."""

from __future__ import annotations

from collections.abc import Sequence

from ..case import Case, expect, Needs, NotApplicable
from ..context import Context
from ..pjrt.buffer import Buffer, destroy
from ..pjrt.graph import Array, elementwise, Graph, Step
from ..pjrt.table import PjrtError
from ..torch_modules import torch_xla
from ..torch_session import check_equal, numbers
from .checks import check_floats

_VALUES = tuple(float(i) for i in range(8))
_DOUBLE = tuple(2 * v for v in _VALUES)
_DONATING = elementwise((8,), donated=True)


def _real(context: Context, part: str) -> str:
  """A donated buffer is gone afterwards; one that is not stays as it was."""
  with context.client() as client:
    loaded = client.compile(_DONATING)
    donated, other = client.put_floats(_VALUES), client.put_floats(_VALUES)
    undonated = (0,) if part == 'refused' else ()
    (result,), = loaded.execute([[donated, other]], undonated=undonated)
    check_floats(result, _DOUBLE, 'the result is')
    gone = donated.deleted
    expect(not other.deleted, 'an argument that was not donated is gone')
    check_floats(other, _VALUES, 'an argument that was not donated holds')
    if part == 'refused':
      expect(
          not gone, 'an argument is gone that ExecuteOptions lists as not '
          'donatable')
      check_floats(
          donated, _VALUES,
          'an argument that ExecuteOptions lists as not donatable holds')
    else:
      expect(
          gone, 'the argument lives on: donation makes a copy, and a '
          'training step needs its weights twice')
  return 'taken over' if part == 'taken' else 'kept'


def _reused_in_place(context: Context, part: str) -> str:
  """The result lies where the donated argument lay."""
  context.needs('Buffer_UnsafePointer')
  with context.client() as client:
    loaded = client.compile(_DONATING)
    donated, other = client.put_floats(_VALUES), client.put_floats(_VALUES)
    try:
      places = donated.pointer, other.pointer
    except PjrtError as e:
      raise NotApplicable(f'the plugin tells no pointers: {e}') from e
    if places[0] == places[1]:
      raise NotApplicable('two buffers that live have the same pointer')
    (result,), = loaded.execute([[donated, other]])
    place = result.pointer
  expect(
      place == places[0], f'the result lies at {place:#x}, and the donated '
      f'argument lay at {places[0]:#x}: donation makes a copy, and a training '
      'step needs its weights twice')
  return 'at the same place'


def _several(context: Context, part: str) -> str:
  """Several inputs of one shape are donated; those that are not stay.

  Result i is the sum of weight i and of the one gradient that each has, on each
  device of its own numbers.
  """
  count, client = 6, context.kept_client()
  devices = range(len(client.ids[:2]))
  array = Array('f32', (8,))
  # Not in the order of the parameters, and the first and last are only read.
  donated = (3, 1, 2, 4)
  loaded = client.compile(
      Graph((array,) * count,
            tuple(Step('add', array, (i, count - 1)) for i in donated),
            tuple(range(count, count + len(donated))), donated),
      client.ids[:2],
      replicas=True)
  for round_ in range(3):
    given = [[
        tuple(float(1000 * device + 100 * i + round_ + v)
              for v in range(8))
        for i in range(count)
    ]
             for device in devices]
    buffers = [[client.put_floats(values, device)
                for values in given[device]]
               for device in devices]
    outputs = loaded.execute(buffers, len(donated))
    for device in devices:
      _check_several(donated, given[device], buffers[device], outputs[device],
                     f'device {client.ids[device]}, execution {round_}: ')
    destroy(sum((*buffers, *outputs), []))
  return f'{len(donated)} of {count} arguments'


def _check_several(donated: Sequence[int], given: Sequence[tuple[float, ...]],
                   buffers: Sequence[Buffer], results: Sequence[Buffer],
                   label: str) -> None:
  for place, (parameter, result) in enumerate(zip(donated, results)):
    check_floats(
        result, [a + b for a, b in zip(given[parameter], given[-1])], f'{label}'
        f'result {place}, which takes the place of argument {parameter}, is')
  for number in {*range(len(given))}.difference(donated):
    expect(
        not buffers[number].deleted and
        buffers[number].floats(8) == given[number],
        f'{label}argument {number}, which nobody donated beside {len(donated)} '
        'donated ones of its shape, has changed or is gone')


def _steps(context: Context, part: str) -> str:
  """Updates in place, as optimizers make them."""
  session = context.torch()
  host = numbers(16, 16)
  weight, gradient = session.to_device(host), session.to_device(host)
  torch_xla.sync(wait=True)
  for _ in range(5):
    weight.sub_(gradient * 0.5)
    torch_xla.sync(wait=True)
  check_equal(weight.cpu(), host - 2.5 * host, 'the weight')
  check_equal(gradient.cpu(), host, 'the gradient, which was only read')
  return '5 updates'


CASES: tuple[Case, ...] = (
    Case(
        'donation.real', 'a step needs the memory of its weights twice, or '
        'loses tensors that are still in use', _real, ('taken', 'refused')),
    Case('donation.in_place', 'a step needs the memory of its weights twice',
         _reused_in_place),
    Case('donation.several', 'weights of one shape are mixed up in a step',
         _several),
    Case(
        'donation.steps',
        'weights or gradients are wrong after a step',
        _steps,
        needs=Needs.TORCH_XLA),
)
