"""The meshes that a process has made.

A program in which nobody names a mesh is partitioned over one of these, so that
a plugin that has opened the mesh can go on with it.
"""

from __future__ import annotations

from typing import Any

from ..annotate.annotation import user_mesh, UserMesh
from ..mode import current_mode, Mode


class Meshes:
  """All meshes ever made, alive or not.

  Each host is to choose the same: so their order is that of what they are,
  whichever thread was the first to make or to use one.
  """

  def __init__(self) -> None:
    self._meshes: set[UserMesh] = set()

  def add(self, mesh: Any) -> None:
    """Notes an `xs.Mesh` as it is made."""
    if current_mode() is Mode.SHARDY:
      self._meshes.add(user_mesh(mesh))

  def ordered(self) -> tuple[UserMesh, ...]:
    """The global mesh if one is set, then the finest: it says most."""
    from torch_xla.distributed.spmd import get_global_mesh
    first = get_global_mesh()
    rest = sorted(list(self._meshes), key=_order_of)
    return tuple(
        rest if first is None else dict.fromkeys((user_mesh(first), *rest)))


def _order_of(mesh: UserMesh) -> tuple[Any, ...]:
  """A key that sorts meshes: most splitting axes, plain order, named axes."""
  return (-sum(size > 1 for size in mesh.shape), mesh.device_ids or
          (), mesh.shape, mesh.axis_names is None, mesh.axis_names or ())
