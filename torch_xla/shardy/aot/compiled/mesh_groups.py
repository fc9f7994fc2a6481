"""Groups of devices as axes of a mesh."""

from __future__ import annotations

from collections.abc import Sequence
import dataclasses
import functools
import math

import numpy as np

from .replica_groups import Groups


@dataclasses.dataclass(frozen=True)
class MeshValue:
  """A mesh that a script made.

  Attributes:
    shape: its sizes, an axis each.
    axis_names: of each axis.
    device_ids: the numbers that shardings give to the devices, 0 to n - 1,
      row-major: a program's partition p is the device with the number p.
  """
  shape: tuple[int, ...]
  axis_names: tuple[str, ...]
  device_ids: tuple[int, ...]

  @functools.cached_property
  def _places(self) -> dict[int, tuple[int, ...]]:
    """The coordinates of each device."""
    return dict(zip(self.device_ids, np.ndindex(*self.shape)))

  def axes_that_differ(self, groups: Groups, devices: int) -> list[int]:
    """The indices of the axes along which devices of a group differ.

    Empty if the mesh is of others than the devices 0 to `devices` - 1.
    """
    if sorted(self.device_ids) != list(range(devices)):
      return []
    return [
        i for i in range(len(self.shape)) if any(
            len({self._places[device][i]
                 for device in group}) > 1
            for group in groups)
    ]


@dataclasses.dataclass(frozen=True)
class Axes:
  """The axes of a mesh along which the groups of a collective lie.

  Attributes:
    names: in the order of the mesh; empty where no mesh has such groups.
    whole: whether each group spans these axes from end to end. If not, it
      takes a part of them: 2 devices of an axis of 4.
  """
  names: tuple[str, ...] = ()
  whole: bool = True


def axes_of_groups(groups: Groups, devices: int,
                   meshes: Sequence[MeshValue]) -> Axes:
  """The smallest set of axes that `groups` lie along.

  In whatever order groups and their devices are listed. Axes of size 1 are
  never among them. The first mesh counts whose groups these are from end to
  end; if there is none, the first that has an axis along which no group goes.

  Args:
    devices: how many the program runs on; meshes of others are passed over.
  """
  parts = Axes()
  if sorted(d for group in groups for d in group) != list(range(devices)):
    return parts
  for mesh in meshes:
    axes = mesh.axes_that_differ(groups, devices)
    if not axes:
      continue
    names = tuple(mesh.axis_names[i] for i in axes)
    size = math.prod(mesh.shape[i] for i in axes)
    # What lies apart along these axes only, and is as large as they are.
    if all(len(group) == size for group in groups):
      return Axes(names)
    if not parts.names and size < devices:
      parts = Axes(names, whole=False)
  return parts


def axes_of_pairs(pairs: Groups, devices: int,
                  meshes: Sequence[MeshValue]) -> Axes:
  """The axes along which sources and targets lie apart, of the first mesh."""
  if any(device >= devices for pair in pairs for device in pair):
    return Axes()
  for mesh in meshes:
    axes = mesh.axes_that_differ(pairs, devices)
    if axes:
      return Axes(tuple(mesh.axis_names[i] for i in axes))
  return Axes()
