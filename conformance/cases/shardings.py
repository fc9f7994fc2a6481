"""Shardings, in all forms in which they are said."""

from __future__ import annotations

import functools

from ..shared.hlo.compile_options import Partitioner
from ..shared.mode import Mode
from ..shared.sharding.text import parse_sharding
from ..case import Case, expect, Needs
from ..context import Context
from ..pjrt.graph import elementwise
from ..torch_modules import torch_xla, xs
from ..torch_session import (annotated, check_equal, check_shards, DATA, MODEL,
                             numbers, recorded)
from .collectives import device_ids, MESHES

# Shardings of eight devices; the last is no reshape and transpose of them.
_FORMS = {
    'iota': 'devices=[8]<=[8]',
    'turned': 'devices=[8]<=[2,4]T(1,0)',
    'turned_again': 'devices=[8]<=[2,2,2]T(2,0,1)',
    'list': 'devices=[8]3,1,7,0,2,6,4,5',
}
_BOTH = (DATA, MODEL)
_UNEVEN = ('7x16', '9x8', '13x5', '3x3', '1x9')
# The mode by the end of a case's name. Without modes there is GSPMD alone.
_MODES = (('', Mode.SHARDY, Needs.TORCH_XLA), ('_gspmd', Mode.V2, Needs.MODES))


def _forms(context: Context, part: str) -> str:
  """Checks that V1 and V2 of one sharding place tiles alike."""
  with context.client() as client:
    plain = parse_sharding('{devices=[8]<=[8]}')
    wanted = parse_sharding('{' + _FORMS[part] + '}')
    order = wanted.tiles.to_array().flatten().tolist()
    expected = [2. * order.index(device) for device in range(8)]
    for version, sharding in (('V2', wanted), ('V1', wanted.to_v1())):
      loaded = client.compile(
          elementwise((8,), shardings=(plain, plain, sharding)), client.ids[:8])
      results = loaded.execute(
          [[client.put_floats([d], d) for _ in range(2)] for d in range(8)])
      held = [result.floats(1)[0] for (result,) in results]
      expect(
          held == expected, f'{sharding} in {version}: the devices hold {held} '
          f'in place of {expected}')
  return 'V1 and V2 alike' if part != 'list' else 'as listed'


def _assignment(context: Context, part: str) -> str:
  """A program runs on the devices that it was compiled for, in their order."""
  with context.client() as client:
    count = len(client.ids)
    positions = [count - 1] if part == 'last' else list(range(count))[::-1]
    ids = [client.ids[position] for position in positions]
    size = len(ids)
    split = parse_sharding(f'{{devices=[{size}]<=[{size}]}}')
    graph = elementwise((size,), shardings=(split,) * 3 if size > 1 else ())
    client.compile(graph, client.ids[:size])  # Of one code, and not the same.
    loaded = client.compile(graph, ids)
    results = loaded.execute(
        [[client.put_floats([tile], position)
          for _ in range(2)]
         for tile, position in enumerate(positions)])
    for tile, (position, (result,)) in enumerate(zip(positions, results)):
      expect(
          result.device == client.devices[position],
          f'compiled for the devices {ids}, result {tile} is not on device '
          f'{client.ids[position]}')
      actual, = result.floats(1)
      expect(
          actual == 2. * tile, f'device {client.ids[position]} holds {actual} '
          f'in place of {2. * tile}')
  return f'{size} device(s)'


def _mesh(context: Context, part: str) -> str:
  """Checks that tensors lie where a mesh says, also when computed."""
  session = context.torch()
  mesh = session.grid(device_ids(session, part))
  host = session.even_numbers()
  with recorded() as programs:
    for spec in ((DATA, MODEL), (MODEL, DATA), (_BOTH, None), (None, MODEL)):
      tensor = annotated(session.to_device(host), mesh, spec)
      check_shards(tensor, host, mesh, spec, f'{spec}')
      result = annotated(tensor * 3 + 1, mesh, spec)
      check_shards(result, host * 3 + 1, mesh, spec, f'{spec}, computed')
  for program in programs:
    expect(not program.note, f'{program.name}: {program.note}')
  return '4 specs'


def _uneven(context: Context, part: str) -> str:
  """Splits dimensions that the number of devices does not divide."""
  session = context.torch()
  mesh = session.grid()
  rows, columns = map(int, part.split('x'))
  host = numbers(rows, columns)
  for spec in ((DATA, None), (None, MODEL), (MODEL, DATA), (_BOTH, None)):
    tensor = annotated(session.to_device(host), mesh, spec)
    check_shards(tensor, host, mesh, spec, f'{spec}')
    result = tensor + 1
    torch_xla.sync(wait=True)
    check_equal(result.cpu(), host + 1, f'{spec}, computed')
    check_equal(tensor.sum(0).cpu(), host.sum(0), f'{spec}, sums of columns')
    check_equal((tensor.T @ tensor).cpu()[0], (host.T @ host)[0],
                f'{spec}, a product')
  return '4 specs'


def _shardy(context: Context, part: str) -> str:
  """Shardy partitions, and keeps what it was told."""
  session = context.torch()
  mesh = session.grid()
  host = session.even_numbers() % 8
  with recorded() as programs:
    left, right = session.to_device(host), session.to_device(host.T)
    xs.mark_sharding(left, mesh, (DATA, None))
    xs.mark_sharding(right, mesh, (None, MODEL))
    product = left @ right
    torch_xla.sync(wait=True)
  check_equal(product.cpu(), host @ host.T, 'the product')
  sharded = [p for p in programs if p.tensors]
  expect(bool(sharded), 'no program with shardings passed the door')
  for program in sharded:
    expect(
        program.partitioner.value == Partitioner.SHARDY.value,
        f'{program.name} was partitioned by {program.partitioner.value}: '
        f'{program.note}')
  check_shards(product, host @ host.T, mesh, (DATA, MODEL), 'the product')
  return f'{len(sharded)} program(s)'


_case = functools.partial(Case, devices=4)
_LIES = 'a device computes with another device\'s part'
CASES: tuple[Case, ...] = (
    _case('shardings.forms', _LIES, _forms, tuple(_FORMS), devices=8),
    *(_case(f'shardings.meshes{by}', _LIES, _mesh, MESHES, mode, needs=needs)
      for by, mode, needs in _MODES),
    *(_case(
        f'shardings.uneven{by}',
        'dimensions that are not divisible give wrong numbers',
        _uneven,
        _UNEVEN,
        mode,
        needs=needs) for by, mode, needs in _MODES),
    _case(
        'shardings.assignment',
        _LIES,
        _assignment, ('last', 'reversed'),
        devices=2),
    _case(
        'shardings.shardy', 'programs are partitioned by GSPMD, and '
        'priorities do nothing',
        _shardy,
        needs=Needs.MODES),
)
