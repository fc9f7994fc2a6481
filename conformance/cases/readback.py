"""Reading what was computed."""

from __future__ import annotations

from ..case import Case, expect, Needs
from ..context import Context
from ..pjrt.graph import elementwise
from ..pjrt.numbers import destroy, floats, read_floats
from ..torch_modules import torch, torch_xla, xs
from ..torch_session import (annotated, check_equal, check_shards, DATA, MODEL,
                             SPECS)

_ROUNDS = 20
# More than a pool or a table of a byte's numbers holds.
_ALIVE = 300
_SPECS = {**SPECS, 'turned_none': ((MODEL, DATA), None)}


def _fresh(context: Context, part: str) -> str:
  """Each result is that of its own execution."""
  with context.client() as client:
    loaded = client.compile(context.program(elementwise((4,)), client))
    for number in range(_ROUNDS):
      left, right = client.put(floats([number] * 4)), client.put(
          floats(range(4)))
      (result,), = loaded.execute([[left, right]])
      expected = tuple(float(number + i) for i in range(4))
      for reading in ('first', 'second'):
        actual = read_floats(result, 4)
        expect(
            actual == expected, f'the {reading} reading of execution {number} '
            f'gave {actual} in place of {expected}')
      destroy((left, right, result))
    loaded.destroy()
  return f'{_ROUNDS} executions'


def _alive(context: Context, part: str) -> str:
  """Results that all live at once are read when the last one is there."""
  client = context.kept_client()
  loaded = client.compile(context.program(elementwise((4,)), client))
  right = client.put(floats(range(4)))
  results = []
  for number in range(_ALIVE):
    left = client.put(floats([number] * 4))
    results += loaded.execute([[left, right]])[0]
    left.destroy()
  wanted = [tuple(float(n + i) for i in range(4)) for n in range(_ALIVE)]
  for number, result in enumerate(results):
    actual = read_floats(result, 4)
    whose = (f', which is result {wanted.index(actual)}: a later one has '
             'overwritten it' if actual in wanted else '')
    expect(
        actual == wanted[number], f'of {_ALIVE} results that live at once '
        f'result {number} is {actual}{whose}')
  destroy((right, *results))
  loaded.destroy()
  return f'{_ALIVE} results at once'


def _updated_in_place(context: Context, part: str) -> str:
  """A tensor that a training loop updates is read as it is now."""
  session = context.torch()
  mesh = session.grid()
  host = session.even_numbers()
  weight = session.to_device(host)
  xs.mark_sharding(weight, mesh, (MODEL, None))
  for number in range(_ROUNDS):
    weight.add_(1)
    torch_xla.sync(wait=True)
    check_equal(weight.cpu(), host + number + 1, f'after update {number}')
  return f'{_ROUNDS} updates'


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


CASES: tuple[Case, ...] = (
    Case('readback.fresh', 'a result is that of an earlier step', _fresh),
    Case('readback.alive', 'a result is overwritten by a later step', _alive),
    Case(
        'readback.in_place',
        'a weight is read as it was before its update',
        _updated_in_place,
        devices=1,
        needs=Needs.TORCH_XLA),
    Case(
        'readback.sharded', 'checkpoints and losses of sharded tensors are '
        'wrong',
        _sharded,
        tuple(_SPECS),
        devices=2,
        needs=Needs.TORCH_XLA),
)
