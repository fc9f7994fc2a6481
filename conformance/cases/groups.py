"""Collectives within groups of devices, where each device gives its own bit.

A sum then says which devices were summed, so that no wrong group gives what the
right one does, as it may where other axes hold copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
import itertools

import numpy as np

from ..case import Case, expect, Needs, NotApplicable
from ..context import Context
from ..pjrt.buffer import Buffer
from ..pjrt.client import Client
from ..pjrt.graph import Array, Graph, Groups, Step
from ..pjrt.host_array import HostArray
from ..torch_modules import torch, torch_xla, xs
from ..torch_session import annotated, check_shards, recorded, TorchSession
from .checks import skipped_if
from .collectives import device_ids, MESHES

_KINDS = ('all-reduce', 'reduce-scatter', 'all-gather', 'all-to-all',
          'collective-permute')
# The element types, with the bits that are exact in each.
_EXACT_BITS = {'f32': 24, 'bf16': 8, 's32': 31}
# Elements that each of n devices gives, as a multiple of n: a few, and in some
# groupings more than what goes at once.
_FEW, _MANY = 4, 516

Numbers = list[np.ndarray]


def _axes_groups(shape: Sequence[int], order: Sequence[int],
                 axes: Sequence[int]) -> Groups:
  """The groups of devices that a mesh's collective over some axes is in."""
  ids = np.array(order).reshape(shape)
  others = [axis for axis in range(ids.ndim) if axis not in axes]
  size = int(np.prod([shape[axis] for axis in axes]))
  rows = ids.transpose(*others, *axes).reshape(-1, size)
  return tuple(tuple(map(int, row)) for row in rows)


def _subsets(rank: int) -> Iterator[tuple[int, ...]]:
  for size in range(1, rank + 1):
    yield from itertools.combinations(range(rank), size)


def _groupings(count: int) -> list[Groups]:
  """Along each axis, and several, of a mesh of three; also on a mixed one."""
  shape = (2, count // 4, 2)
  mixed = np.random.RandomState(0).permutation(count).tolist()
  groupings = {
      _axes_groups(shape, order, axes): None for order in (range(count), mixed)
      for axes in _subsets(3)
  }
  return [groups for groups in groupings if len(groups[0]) > 1]


def _given(kind: str, count: int, multiple: int, most: int) -> Numbers:
  """The input of each device.

  To a sum its own bit, and to every third element nothing, so that elements
  differ; to what is only moved, numbers below `most`, which no other device has
  if they are so many.
  """
  elements = np.arange(multiple * count)
  if kind in ('all-reduce', 'reduce-scatter'):
    # No period, by which a part could be taken for another one.
    return [(1 << d) * ((elements * elements // 7 + d) % 3 > 0)
            for d in range(count)]
  return [(elements + d * len(elements)) % most for d in range(count)]


def _expected(kind: str, given: Numbers, groups: Groups) -> Numbers:
  """The result of each device, by StableHLO's specification."""
  results = list(given)
  for group in groups:
    members = [given[device] for device in group]
    for place, device in enumerate(group):
      chunks = [np.split(member, len(group))[place] for member in members]
      results[device] = {
          'all-reduce': sum(members),
          'reduce-scatter': sum(chunks),
          'all-gather': np.concatenate(members),
          'all-to-all': np.concatenate(chunks),
          'collective-permute': members[place - 1],
      }[kind]
  return results


def _step(kind: str, given: Array, groups: Groups) -> Step:
  size, length = len(groups[0]), given.count
  if kind == 'collective-permute':
    groups = tuple((group[place - 1], device)
                   for group in groups
                   for place, device in enumerate(group))
  length = {
      'reduce-scatter': length // size,
      'all-gather': length * size
  }.get(kind, length)
  return Step(kind, Array(given.dtype, (length,)), (0,), groups)


def _explicit_groups(context: Context, kind: str) -> str:
  """Programs that say their groups, with a replica on each device."""
  client = context.kept_client()
  count = len(client.ids)
  types = [t for t, bits in _EXACT_BITS.items() if count <= bits]
  if count % 4 or not types:
    raise NotApplicable(f'there are {count} devices, not 4, 8, 12, ... 28')
  groupings = _groupings(count)
  _run_told(client, kind, types[0], groupings, _FEW)
  # Along one axis, of a mixed mesh, and of all devices.
  few = [*groupings[::9], (tuple(range(count)),)]
  for dtype in types:
    _run_told(client, kind, dtype, few, _MANY)
  return f'{len(groupings)} groupings in {types[0]}, {len(few)} in the others'


def _run_told(client: Client, kind: str, dtype: str,
              groupings: Sequence[Groups], multiple: int) -> None:
  given = _given(kind, len(client.ids), multiple, 1 << _EXACT_BITS[dtype])
  array = Array(dtype, given[0].shape)
  steps = tuple(_step(kind, array, groups) for groups in groupings)
  graph = Graph((array,), steps, tuple(range(1, 1 + len(steps))))
  with skipped_if('UNIMPLEMENTED', 'the plugin does not compile it: '):
    loaded = client.compile(graph, client.ids, replicas=True)
  arguments = [[client.put(HostArray.from_numbers(dtype.upper(), g), d)]
               for d, g in enumerate(given)]
  results = loaded.execute(arguments, len(steps))
  for number, groups in enumerate(groupings):
    expected = _expected(kind, given, groups)
    for device, of_device in enumerate(results):
      _check(
          of_device[number], expected[device], dtype,
          f'{kind} of {dtype} within {_text(groups)}: device {device}: '
          f'of {array.count} elements it')
  client.release()


def _text(groups: Groups) -> str:
  return ','.join(f'{{{",".join(map(str, group))}}}' for group in groups)


def _check(buffer: Buffer, expected: np.ndarray, dtype: str, name: str) -> None:
  got = buffer.read(dtype.upper(), expected.shape).numbers()
  wrong = np.flatnonzero(got != expected)
  expect(
      not wrong.size, f'{name} has {got[wrong[:1]]} at {wrong[:1]} in place '
      f'of {expected[wrong[:1]]}')


_SHAPES = {
    'rows': lambda count: (2, count // 2),
    'columns': lambda count: (count // 2, 2),
    'cube': lambda count: (2, count // 4, 2),
}


def _partitioned(context: Context, part: str) -> str:
  """Collectives that a partitioner makes of sums and shardings."""
  shape_name, order = part.split('.')
  session = context.torch()
  if session.count not in (4, 8):  # More do not fit into a float32.
    raise NotApplicable(f'there are {session.count} devices, not 4 or 8')
  shape = _SHAPES[shape_name](session.count)
  names = tuple(f'a{axis}' for axis in range(len(shape)))
  mesh = session.mesh(shape, names, device_ids(session, order))
  with recorded() as programs:
    for axes in _subsets(len(shape)):
      _check_axes(session, mesh, axes)
  kinds = sorted(
      {c.kind for program in programs for c in program.collectives or ()})
  return ', '.join(kinds) or 'no collective is told'


def _check_axes(session: TorchSession, mesh: xs.Mesh,
                axes: Sequence[int]) -> None:
  """Sums and moves over some axes, in one program."""
  count, shape = session.count, mesh.mesh_shape
  names = mesh.axis_names
  every, over = tuple(names), tuple(names[axis] for axis in axes)
  others = tuple(name for name in names if name not in over)
  remaining = tuple(None if name in over else name for name in names)
  bits = torch.tensor([2.**place for place in range(count)]).reshape(shape)
  # Of each element another multiple, which leaves room for the bits.
  parts = bits[..., None] * (1 + torch.arange(float(count)) * 2**count)
  places = torch.arange(float(count * count)).reshape(*shape, count)
  on_device = [
      annotated(session.to_device(host), mesh, (*every, *rest))
      for host, rest in ((bits, ()), (parts, (None,)), (places, (None,)))
  ]
  expected = {
      'all-reduce': (bits.sum(axes), others),
      'reduce-scatter': (parts.sum(axes), (*others, over)),
      'all-gather': (places + 1, (*remaining, None)),
      'all-to-all': (places + 2, (*remaining, over)),
  }
  actual = dict(
      zip(expected, (on_device[0].sum(axes), on_device[1].sum(axes),
                     on_device[2] + 1, on_device[2] + 2),
          strict=True))
  for kind, result in actual.items():
    xs.mark_sharding(result, mesh, expected[kind][1])
  torch_xla.sync(wait=True)
  for kind, result in actual.items():
    host, spec = expected[kind]
    check_shards(result, host, mesh, spec, f'{kind} over {", ".join(over)}')


CASES: tuple[Case, ...] = (
    Case(
        'groups.told',
        'sums and gathers of groups that a program names take in other devices',
        _explicit_groups,
        _KINDS,
        devices=4),
    Case(
        'groups.partitioned',
        'gradients are summed over devices of another axis of the mesh',
        _partitioned,
        tuple(f'{shape}.{order}' for shape in _SHAPES for order in MESHES),
        devices=4,
        seconds=120,
        needs=Needs.TORCH_XLA),
)
