"""A user's annotation of a tensor: mesh, spec, priorities and the rest."""

from __future__ import annotations

from collections.abc import Sequence
import dataclasses
import functools
from typing import Any, Optional

import numpy as np

from ..sharding.hlo_sharding import HloSharding
from ..sharding.partition_spec import are_in_plain_order, sharding_of
from .constraint_words import Propagate, UnreducedError
from .priority import Priority


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

  def __post_init__(self) -> None:
    names = self.axis_names
    if names is not None and (len(names) != len(self.shape) or
                              not all(isinstance(n, str) for n in names)):
      raise ValueError(f'axis names {names} for a mesh of '
                       f'{len(self.shape)} axes')

  @classmethod
  def from_devices(cls,
                   shape: Sequence[int],
                   axis_names: Optional[Sequence[str]],
                   device_ids: Optional[Sequence[int]] = None) -> UserMesh:
    names = tuple(map(str, axis_names)) if axis_names else None
    ids = None
    if device_ids is not None:
      array = np.asarray(device_ids).reshape(-1)
      ids = None if are_in_plain_order(array) else tuple(array.tolist())
    return cls(tuple(map(int, shape)), names, ids)

  def axis_name(self, axis: int) -> str:
    return self.axis_names[axis] if self.axis_names else f'axis_{axis}'


@functools.lru_cache(maxsize=8)
def user_mesh(mesh: Any) -> UserMesh:
  """The UserMesh of an `xs.Mesh`; steps may mark inputs with the same one."""
  return UserMesh.from_devices(mesh.mesh_shape, mesh.axis_names,
                               mesh.device_ids)


@dataclasses.dataclass(frozen=True)
class Annotation:
  """The arguments of `mark_sharding` for one tensor.

  Attributes:
    partition_spec: for each dimension the mesh axes it is split over, by index,
      from major to minor; empty where it is not split.
    priority: for each dimension a priority, or None where none was given; None
      if the whole call gave none.
    propagate: for each dimension whether propagation may split it further, or
      None where nothing was said; None if nothing was said of any.
    unreduced: the mesh axes, by index, over which it is a part of a sum.

  Raises:
    UnreducedError: it is a part of a sum and has an open dimension.
  """
  mesh: UserMesh
  partition_spec: tuple[tuple[int, ...], ...]
  priority: Optional[Priority] = None
  propagate: Optional[Propagate] = None
  unreduced: tuple[int, ...] = ()

  def __post_init__(self) -> None:
    if self.unreduced and any(self.open_dims):
      # XLA adds the value up, takes it for a part, and adds it up again.
      raise UnreducedError(
          'unreduced= of a value with open dimensions, which would be added up '
          'twice: leave out propagate=, and the priorities of dimensions that '
          'are not split')

  @classmethod
  def from_spec(
      cls,
      mesh: UserMesh,
      partition_spec: Sequence[Any],
      priority: Optional[Priority],
      propagate: Optional[Propagate] = None,
      unreduced: tuple[int, ...] = ()
  ) -> Annotation:
    """An annotation from a partition spec of axis indices, tuples and Nones."""
    spec = tuple(
        () if entry is None else
        tuple(map(int, entry)) if isinstance(entry, (tuple,
                                                     list)) else (int(entry),)
        for entry in partition_spec)
    return _first_of_equals(cls(mesh, spec, priority, propagate, unreduced))

  @functools.cached_property
  def open_dims(self) -> tuple[bool, ...]:
    """For each dimension whether propagation may split it further.

    A priority says so of one that is not split.
    """
    rank = len(self.partition_spec)
    return tuple(
        bool(propagate) or (not axes and priority is not None)
        for axes, priority, propagate in zip(
            self.partition_spec,
            self.priority or (None,) * rank,
            self.propagate or (None,) * rank,
            strict=True))

  @property
  def is_decisive(self) -> bool:
    """Tests whether it says more than where the tensor is placed."""
    return bool(self.priority or self.propagate)

  @functools.cached_property
  def without_unreduced(self) -> Annotation:
    """The annotation of the value that is added up."""
    return dataclasses.replace(self, unreduced=())

  @functools.cached_property
  def sharding(self) -> HloSharding:
    """The placement that it asks for."""
    return sharding_of(self.mesh.shape, self.mesh.device_ids,
                       self.partition_spec)

  @functools.cached_property
  def text(self) -> str:
    """All that it says; the same in every process."""
    return repr(self)

  @functools.cached_property
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
