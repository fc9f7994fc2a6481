"""What a user says of a tensor's sharding, and how programs carry it.

`xs.mark_sharding` hands the runtime a placement and no more. The mesh's axis
names and the priorities travel inside the program, as the target of custom
calls that the lowering takes out again:

- a *binding*, with the annotated tensors as operands, says which of them is
  which parameter of the program;
- a *mark*, between an intermediate tensor and its `Sharding` call, says the
  same of that tensor.

The target holds the whole text, because it is all that the graph's hash covers
and all that survives when the node is cloned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
import dataclasses
import functools
import json
import math
from typing import Any, Optional

import numpy as np

from . import partition
from .hlo_sharding import HloSharding

_BINDING = 'torch_xla.shardy.bind '
_MARK = 'torch_xla.shardy.mark '
# Shardy holds 64 bits; nobody needs as many, and one more must always fit.
_HIGHEST = 2**31 - 1

Priority = tuple[Optional[int], ...]


class PriorityError(ValueError):
  """Priorities that do not fit the tensor, or no priorities at all."""


class PriorityLengthError(PriorityError):
  """Not one priority per dimension."""


class PriorityValueError(PriorityError):
  """A priority that is negative, or beyond all need."""


class PriorityTypeError(PriorityError, TypeError):
  """A priority that is neither an integer nor None."""


class AnnotationTextError(ValueError):
  """The target of a binding or a mark that does not say what it should."""


def check_priority(priority: Any, rank: int) -> Optional[Priority]:
  """`priority` as a tuple with an int or None for each of `rank` dimensions.

  Raises:
    PriorityLengthError: not one entry per dimension.
    PriorityTypeError: not a tuple or list, or an entry that is a bool, a float,
      a string, ...: anything but an integer and None.
    PriorityValueError: a negative entry.
  """
  if priority is None:
    return None
  hint = 'give a tuple with one non-negative int or None per dimension'
  if not isinstance(priority, (tuple, list)):
    raise PriorityTypeError(f'priority={priority!r} is a '
                            f'{type(priority).__name__}; {hint}')
  if len(priority) != rank:
    raise PriorityLengthError(
        f'priority={tuple(priority)!r} has {len(priority)} entries for a '
        f'tensor of rank {rank}; {hint}')
  for dim, entry in enumerate(priority):
    if entry is None:
      continue
    if isinstance(entry, bool) or not isinstance(entry, (int, np.integer)):
      raise PriorityTypeError(
          f'priority={tuple(priority)!r}: {entry!r} of dimension {dim} is a '
          f'{type(entry).__name__}; {hint}')
    if entry < 0:
      raise PriorityValueError(
          f'priority={tuple(priority)!r}: {entry} of dimension {dim} is '
          'negative; 0 is the highest priority, higher numbers come later')
    if entry > _HIGHEST:
      raise PriorityValueError(
          f'priority={tuple(priority)!r}: {entry} of dimension {dim} is above '
          f'{_HIGHEST}')
  return tuple(None if entry is None else int(entry) for entry in priority)


@dataclasses.dataclass(frozen=True)
class UserMesh:
  """A mesh as a user made it.

  Attributes:
    shape: the size of each axis.
    axis_names: one per axis, or None where the mesh has none.
    device_ids: in row-major order; None for 0 to n - 1.
  """
  shape: tuple[int, ...]
  axis_names: Optional[tuple[str, ...]] = None
  device_ids: Optional[tuple[int, ...]] = None

  def __post_init__(self):
    names = self.axis_names
    if names is not None and (len(names) != len(self.shape) or
                              not all(isinstance(n, str) for n in names)):
      raise ValueError(f'axis names {names} for a mesh of '
                       f'{len(self.shape)} axes')

  @classmethod
  def of(cls,
         shape: Sequence[int],
         axis_names: Optional[Sequence[str]],
         device_ids: Optional[Sequence[int]] = None) -> UserMesh:
    names = tuple(map(str, axis_names)) if axis_names else None
    if device_ids is not None:
      device_ids = np.asarray(device_ids).reshape(-1)
      if partition.in_plain_order(device_ids):
        device_ids = None
      else:
        device_ids = tuple(device_ids.tolist())
    return cls(tuple(map(int, shape)), names, device_ids)

  def axis_name(self, axis: int) -> str:
    return self.axis_names[axis] if self.axis_names else f'axis_{axis}'


@functools.lru_cache(maxsize=8)
def user_mesh(mesh: Any) -> UserMesh:
  """What an `xs.Mesh` is; each step may mark its inputs with the same."""
  return UserMesh.of(mesh.mesh_shape, mesh.axis_names, mesh.device_ids)


@dataclasses.dataclass(frozen=True)
class Annotation:
  """What `mark_sharding` was told of one tensor.

  Attributes:
    partition_spec: for each dimension the mesh axes it is split over, by index,
      from major to minor; empty where it is not split.
    priority: for each dimension a priority, or None where none was given; None
      if the whole call gave none.
  """
  mesh: UserMesh
  partition_spec: tuple[tuple[int, ...], ...]
  priority: Optional[Priority] = None

  @classmethod
  def of(cls, mesh: UserMesh, partition_spec: Sequence[Any],
         priority: Optional[Priority]) -> Annotation:
    """From a partition spec that names axes by index: an int, a tuple, None."""
    spec = tuple(
        () if entry is None else
        tuple(map(int, entry)) if isinstance(entry, (tuple,
                                                     list)) else (int(entry),)
        for entry in partition_spec)
    return _first_of_equals(cls(mesh, spec, priority))

  @property
  def sharding(self) -> HloSharding:
    """The placement that it asks for."""
    return partition.sharding_of(self.mesh.shape, self.mesh.device_ids,
                                 self.partition_spec)

  def divides(self, shape: Sequence[int]) -> bool:
    """Whether it splits a tensor of this shape into equal parts."""
    return all(size % math.prod(self.mesh.shape[axis]
                                for axis in axes) == 0
               for size, axes in zip(shape, self.partition_spec))

  @property
  def spec_text(self) -> str:
    """The partition spec with the mesh's axis names."""
    entries = []
    for axes in self.partition_spec:
      names = [repr(self.mesh.axis_name(axis)) for axis in axes]
      entries.append('None' if not names else names[0] if len(names) ==
                     1 else f'({", ".join(names)})')
    return f'({", ".join(entries)}{"," if len(entries) == 1 else ""})'


@functools.lru_cache(maxsize=1024)
def _first_of_equals(annotation: Annotation) -> Annotation:
  """One object for the many tensors of which the same is said."""
  return annotation


def binding_target(annotations: Iterable[Annotation]) -> str:
  """The target of the binding of tensors with these annotations, in order."""
  return _BINDING + _dump(annotations)


def mark_target(annotation: Annotation) -> str:
  """The target of the mark of one tensor."""
  return _MARK + _dump([annotation])


def is_binding(target: str) -> bool:
  return target.startswith(_BINDING)


def is_mark(target: str) -> bool:
  return target.startswith(_MARK)


def parse_target(target: str) -> tuple[Annotation, ...]:
  """The annotations in the target of a binding or a mark.

  Raises:
    AnnotationTextError: it is neither, or damaged.
  """
  prefix = next((p for p in (_BINDING, _MARK) if target.startswith(p)), None)
  if prefix is None:
    raise AnnotationTextError(f'{target[:80]!r} is no binding and no mark')
  try:
    data = json.loads(target[len(prefix):])
    meshes = [
        UserMesh(
            tuple(shape), None if names is None else tuple(names),
            None if ids is None else tuple(ids))
        for shape, names, ids in data['meshes']
    ]
    annotations = []
    for index, spec, priority in data['tensors']:
      if index not in range(len(meshes)):
        raise ValueError(f'there is no mesh {index}')
      annotation = Annotation(meshes[index], tuple(map(tuple, spec)),
                              check_priority(priority, len(spec)))
      annotation.sharding  # Refuses axes and devices that are not there.
      annotations.append(annotation)
  except (ValueError, TypeError, KeyError, IndexError) as e:
    raise AnnotationTextError(f'damaged annotations in a program: {e}') from e
  return tuple(annotations)


def _dump(annotations: Iterable[Annotation]) -> str:
  meshes: dict[UserMesh, int] = {}
  tensors = [(meshes.setdefault(a.mesh,
                                len(meshes)), a.partition_spec, a.priority)
             for a in annotations]
  data = {
      'meshes': [(m.shape, m.axis_names, m.device_ids) for m in meshes],
      'tensors': tensors,
  }
  return json.dumps(data, separators=(',', ':'))
