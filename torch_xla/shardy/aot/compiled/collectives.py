"""Bytes that a compiled program moves between devices, by mesh axes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

from . import mesh_groups, replica_groups, slices
from .compiled_module import CompiledModule
from .mesh_groups import MeshValue
from ..report import CollectiveUse
from ...layers import group_of
from ...operation_names import module_of
from .slices import Transfer
from ...hlo import array_shape, collectives
from ...hlo.collectives import Started

_PERMUTE = 'collective-permute'
# A collective, and how it goes between slices; None if it does not.
_Collective = tuple[Started, Optional[Transfer]]


def collective_uses(module: CompiledModule,
                    meshes: Sequence[MeshValue]) -> tuple[CollectiveUse, ...]:
  """The collectives of one execution, the most bytes first.

  Those in loops count by trip counts, and those in both branches of a
  conditional. A collective that is cut into steps counts once, and so does a
  start with its end. Where a program runs on several slices, the compiler
  splits a collective over them into one within each slice and one between
  them, and they are told apart.

  Args:
    meshes: that the script made, those that matter most first.
  """
  counts: Counter[tuple[str, tuple[str, ...], str]] = Counter()
  nbytes: Counter[tuple[str, tuple[str, ...], str]] = Counter()
  modules: dict[tuple[str, tuple[str, ...], str], Counter[str]] = (
      defaultdict(Counter))
  collected = [(*c, times)
               for computation, times in module.run()
               for c in _started_in(computation, module)]
  devices = module.replicas * (
      module.partitions or 1 + max(
          (replica_groups.largest_device(started.instruction)
           for started, _, _ in collected),
          default=0))
  slice_count = max((t.slices for _, t, _ in collected if t), default=1)
  for started, transfer, times in collected:
    key = started.kind, *_along(started, transfer, module.replicas, devices,
                                slice_count, meshes)
    counts[key] += times
    nbytes[key] += times * started.nbytes
    if path := module_of(started.instruction.metadata.op_name):
      modules[key][group_of(path)] += times * started.nbytes
  uses = [
      CollectiveUse(*key, counts[key], nbytes[key],
                    tuple(path
                          for path, _ in modules[key].most_common()))
      for key in counts
  ]
  return tuple(
      sorted(uses, key=lambda u: (-u.nbytes, u.kind, u.axes, u.groups)))


def _started_in(computation: Any,
                module: CompiledModule) -> Iterator[_Collective]:
  """The collectives that the instructions of a computation start."""
  for started in collectives.started_in(computation):
    yield started, None
  shapes = {i.id: i.shape for i in computation.instructions}
  received = {
      _attributes(i).get(slices.MEETING): i.shape
      for i in computation.instructions
      if i.opcode == 'recv'
  }
  for instruction in computation.instructions:
    if instruction.opcode == 'fusion':
      for started in started_by_fusion(instruction, module):
        yield started, None
    elif instruction.opcode == 'send':
      collective = _between_slices(instruction, shapes, received)
      if collective is not None:
        yield collective


def started_by_fusion(fusion: Any, module: CompiledModule) -> Iterator[Started]:
  """The collectives that a fusion starts."""
  for computation in _fused(fusion, module):
    yield from collectives.started_in(computation)


def fused_in(fusion: Any, module: CompiledModule) -> Iterator[Any]:
  """All instructions of a fusion, and of fusions in it."""
  for computation in _fused(fusion, module):
    yield from computation.instructions


def _fused(fusion: Any, module: CompiledModule) -> Iterator[Any]:
  for called in fusion.called_computation_ids:
    computation = module.computations[called]
    yield computation
    for instruction in computation.instructions:
      if instruction.opcode == 'fusion':
        yield from _fused(instruction, module)


def _between_slices(
    send: Any, shapes: Mapping[int, bytes],
    received: Mapping[Optional[str], bytes]) -> Optional[_Collective]:
  """What a transfer through the host does; None if it is not between slices."""
  attributes = _attributes(send)
  transfer = slices.transfer_of(attributes)
  if transfer is None:
    return None
  # A transfer's shape is a tuple: the array, a number and a token.
  got = received.get(attributes.get(slices.MEETING))
  nbytes = max(
      array_shape.nbytes_of(shapes[send.operand_ids[0]]),
      array_shape.nbytes_of(array_shape.elements_of(got)[0]) if got else 0)
  return Started(transfer.kind, send, nbytes), transfer


def _attributes(instruction: Any) -> dict[str, str]:
  return {a.key: a.value for a in instruction.frontend_attributes.map}


def _along(collective: Started, transfer: Optional[Transfer], replicas: int,
           devices: int, slice_count: int,
           meshes: Sequence[MeshValue]) -> tuple[tuple[str, ...], str]:
  """The axes of a collective, and its groups as text.

  Args:
    devices: of one slice; those of the next have the numbers after them.
  """
  instruction = collective.instruction
  partitions = devices // replicas
  if transfer is not None:
    groups = transfer.groups_of(devices)
  elif collective.kind == _PERMUTE:
    groups = replica_groups.pairs_of(instruction, replicas, partitions)
  else:
    groups = replica_groups.groups_of(instruction,
                                      collectives.kind_of(instruction),
                                      replicas, partitions)
  if transfer is None:
    groups = tuple(
        tuple(s * devices + device
              for device in group)
        for s in range(slice_count)
        for group in groups)
  everything = slice_count * devices
  if collective.kind == _PERMUTE:
    moved = sum(source != target for source, target in groups)
    text = f'{moved} of {everything} devices send'
    axes = mesh_groups.axes_of_pairs(groups, everything, meshes)
  else:
    text = replica_groups.text_of(groups)
    axes = mesh_groups.axes_of_groups(groups, everything, meshes)
  if transfer is not None:
    text += ' between slices'
  if not axes.whole:
    return (), f'{text} along a part of {", ".join(axes.names)}'
  return axes.names, text
