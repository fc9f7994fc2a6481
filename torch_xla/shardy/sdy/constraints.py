"""The lowering to Shardy's terms.

A program is read as *sites*, the places that carry a tensor's sharding. `decide`
returns a mesh for all of them, and for each the constraint to write:

    {devices=[2,1,4]<=[8] last_tile_dim_replicate}, ('x', None), priority (1, 2)
    over <["x"=2, "y"=4]>  ->  [{"x"}p1, {?}p2]

- Parameters keep the placement they are stored with: `Constraint.closed`.
- Placements that no user asked for (tensors without an annotation, constraints
  of the runtime's that repeat none: `rewrite.unasked`) are as binding, but get a
  priority after the last of the users': their order is decided first. Shardy
  takes a dimension without a priority for p0, the highest.
- Several meshes become one that says all: that which most tensors use first, and
  after the program's own those that the process has besides. Sub-axes are only
  for where each of these needs them. In a process without a mesh one is made up
  of the placements.

`to_sdy` reads and writes programs.
"""

from __future__ import annotations

import collections
from collections.abc import Hashable, Iterable, Mapping, Sequence
import dataclasses
from typing import NamedTuple, Optional, TypeVar

from . import attributes, mesh_axes
from ..annotate.annotation import Annotation, UserMesh
from ..compile.record import TensorRecord
from ..hlo import array_shape
from ..hlo.protos import HloInstructionProto
from ..sharding.hlo_sharding import HloSharding, ShardingType
from .mesh_axes import InexpressibleError

Key = TypeVar('Key', bound=Hashable)
MANUAL = HloSharding.whole(ShardingType.MANUAL)


class Site(NamedTuple):
  """A place in a program that carries a tensor's sharding.

  Attributes:
    placement: what it is stored with, or is constrained to.
    rank: of the tensor.
    annotation: the user's, of this value or of the value it derives from.
    is_boundary: where a manual region begins or ends. No user can give it a
      priority: without one it counts as not asked for.
    open_dims: dimensions that the placement does not constrain.
    is_repeated: nobody asked for it: the annotation is that of a tensor which it
      is to be placed as.
  """
  placement: HloSharding
  rank: int
  annotation: Optional[Annotation] = None
  is_boundary: bool = False
  open_dims: tuple[int, ...] = ()
  is_repeated: bool = False


class Constraint(NamedTuple):
  """The constraint of a site in Shardy's terms.

  Attributes:
    annotation: None where no user asked for it.
    unreduced: axes over which the value is a part of a sum.
    is_stored: as a result it is laid out as placed, also where it is open.
  """
  dims: attributes.TensorSharding
  placement: HloSharding
  annotation: Optional[Annotation]
  unreduced: tuple[attributes.SubAxis, ...] = ()
  is_stored: bool = False

  @property
  def constrains_whole_tensor(self) -> bool:
    """Tests that it constrains a whole tensor, and not a few dimensions."""
    return (self.annotation is not None or self.is_stored or not self.is_open)

  @property
  def is_open(self) -> bool:
    """Tests whether it leaves a dimension open."""
    return not all(dim.closed for dim in self.dims)

  @property
  def has_sub_axes(self) -> bool:
    return any(axis.size for dim in self.dims for axis in dim.axes)

  @property
  def closed(self) -> attributes.TensorSharding:
    """The shardings with every dimension closed: how a tensor is stored."""
    return tuple(
        dataclasses.replace(dim, closed=True) if dim.axes else attributes.
        DimSharding() for dim in self.dims)


def record_of(instruction: HloInstructionProto,
              layout: HloSharding,
              annotation: Optional[Annotation],
              sdy: str = '',
              source: Optional[HloInstructionProto] = None,
              *,
              number: Optional[int] = None,
              name: str = '') -> TensorRecord:
  """The record of an instruction's result.

  Args:
    layout: what it is stored with, or is constrained to.
    annotation: None where no user said anything.
    sdy: the attribute's value, as handed over.
    source: the instruction whose result it is, if that is another.
    number: of a parameter.
    name: the user's name of that, where one is known.
  """
  source = source or instruction
  return TensorRecord(
      number,
      instruction.name,
      array_shape.arrays_of(instruction.shape)[0],
      None if annotation is None else annotation.spec_text,
      None if annotation is None else annotation.priority,
      sdy,
      layout, (source.name, source.opcode),
      name=name)


def name_suffix(name: Optional[str]) -> str:
  """The name in brackets behind a parameter's number; empty if unknown."""
  return f' ({name})' if name else ''


@dataclasses.dataclass(frozen=True)
class SdyProgram:
  """A program in Shardy's terms.

  Attributes:
    tensors: parameters by number, then constraints.
    results: placements that the compiled program must give, by result.
    partially_constrained_results: the constraints of results with an open
      dimension, which may be split further.
    manual_results: those that are manual: torch_xla expects each device's own
      value, of the local shape, under the sharding {manual}.
  """
  mesh: attributes.Mesh
  tensors: tuple[TensorRecord, ...]
  results: dict[int, HloSharding]
  partially_constrained_results: dict[int, Constraint] = dataclasses.field(
      default_factory=dict)
  manual_results: frozenset[int] = frozenset()

  @property
  def parameters(self) -> tuple[TensorRecord, ...]:
    return tuple(t for t in self.tensors if t.parameter is not None)

  def mark_manual_results(
      self, results: Sequence[HloSharding]) -> tuple[HloSharding, ...]:
    """The results' layouts for torch_xla, with manual ones marked."""
    return tuple(MANUAL if place in self.manual_results else result
                 for place, result in enumerate(results))


def decide(
    sites: Mapping[Key, Site],
    annotations: Iterable[Annotation],
    num_devices: int,
    meshes: Iterable[UserMesh] = ()
) -> tuple[attributes.Mesh, dict[Key, Constraint]]:
  """The mesh and the constraint of each site.

  Args:
    sites: by whatever the program's format calls them.
    annotations: all that the program carries, also of tensors whose placement
      is another by now.
    meshes: what the process has besides, in the order of preference.

  Raises:
    InexpressibleError: Shardy's terms do not say it all.
  """
  annotations = list(annotations)
  mesh_counts = collections.Counter(a.mesh for a in annotations)
  repeated = [
      a for s in sites.values() if s.is_repeated and (a := s.annotation)
  ]
  mesh_counts.update(dict.fromkeys((a.mesh for a in repeated), 0))
  given = [
      p for a in (*annotations, *repeated) for p in a.priority or ()
      if p is not None
  ]
  unsaid_priority = 1 + max(given) if given else None
  with_sub_axes: Optional[tuple[attributes.Mesh, dict[Key, Constraint]]] = None
  error: Optional[InexpressibleError] = None
  own = [_mesh_of(mesh, num_devices) for mesh, _ in mesh_counts.most_common()]
  others = [mesh_axes.mesh_of(mesh) for mesh in meshes]
  for mesh in dict.fromkeys(
      (*own, *(m for m in others if m.num_devices == num_devices))):
    try:
      constraints = _constraints(sites, mesh, unsaid_priority)
    except InexpressibleError as e:
      error = e if mesh in own else error
      continue
    if not any(c.has_sub_axes for c in constraints.values()):
      return mesh, constraints
    with_sub_axes = with_sub_axes or (mesh, constraints)
  if with_sub_axes is not None:
    return with_sub_axes
  if error is not None:
    raise error
  mesh = mesh_axes.mesh_of_placements(
      dict.fromkeys(site.placement for site in sites.values()), num_devices)
  return mesh, _constraints(sites, mesh, None)


def _mesh_of(user_mesh: UserMesh, num_devices: int) -> attributes.Mesh:
  mesh = mesh_axes.mesh_of(user_mesh)
  if mesh.num_devices != num_devices:
    raise InexpressibleError(
        f'a mesh of {mesh.num_devices} devices in a program for {num_devices}')
  return mesh


def _constraints(sites: Mapping[Key, Site], mesh: attributes.Mesh,
                 unsaid_priority: Optional[int]) -> dict[Key, Constraint]:
  # A program says few different things of many tensors.
  by_site: dict[Site, Constraint] = {}
  constraints = {}
  for key, site in sites.items():
    if site not in by_site:
      try:
        by_site[site] = _constraint(site, mesh, unsaid_priority)
      except InexpressibleError as e:
        raise InexpressibleError(str(e), key) from e
    constraints[key] = by_site[site]
  return constraints


def _constraint(site: Site, mesh: attributes.Mesh,
                unsaid_priority: Optional[int]) -> Constraint:
  annotation = site.annotation
  if annotation is not None and (len(annotation.partition_spec) != site.rank or
                                 annotation.sharding != site.placement):
    annotation = None  # Its tensor was given other data since.
  if annotation is not None:
    dims = mesh_axes.annotated_dims(annotation, mesh)
    unreduced = mesh_axes.unreduced_axes(annotation, mesh)
  else:
    unreduced = ()
    dims = mesh_axes.dims_of(site.placement, mesh, site.rank)
  if annotation is None or site.is_boundary and annotation.priority is None:
    dims = tuple(
        dataclasses.replace(dim, priority=unsaid_priority) if dim.axes else dim
        for dim in dims)
  dims = tuple(
      dataclasses.replace(dim, closed=False) if n in site.open_dims else dim
      for n, dim in enumerate(dims))
  attributes.check(mesh, dims)
  return Constraint(dims, site.placement,
                    None if site.is_repeated else annotation, unreduced,
                    site.is_repeated)
