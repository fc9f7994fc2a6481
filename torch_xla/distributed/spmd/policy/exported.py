"""A policy as Python source for other frameworks: DTensor, and JAX.

Pure: claims and a mesh in, the text of a module out. It imports no torch_xla,
and importing it makes no device and no process group.

Priorities and open dimensions are not said there: they stand in comments.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
import math
from typing import Any, Union

from torch_xla.shardy.annotate.annotation import UserMesh

from .claims import Claim, OwnedTensor
from .patterns import PolicyError
from .rules import axes_of, Boundary, Spec, uneven

_DTENSOR = '''"""How the tensors of a model are placed, for torch.distributed.tensor.

from torch.distributed.tensor import distribute_tensor
mesh = device_mesh('cuda')  # In each process; rank r is what was device r.
weight = distribute_tensor(weight, mesh, PLACEMENTS['name of the weight'])
"""

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard

MESH_SHAPE = {shape}
MESH_DIM_NAMES = {names}
RANKS = {ids}  # In row-major order.


def device_mesh(device_type):
  return DeviceMesh(
      device_type,
      torch.tensor(list(RANKS)).reshape(MESH_SHAPE),
      mesh_dim_names=MESH_DIM_NAMES)


# For each tensor a placement on each dimension of the mesh.
PLACEMENTS = {tensors}

# The same of results: by module, and which of several results it is.
OUTPUT_PLACEMENTS = {outputs}
'''

_JAX = '''"""How the tensors of a model are sharded, for jax.sharding.

import jax
mesh = device_mesh(jax.devices())  # By id: device i is what was device i.
spec = PARTITION_SPECS['name of the weight']
weight = jax.device_put(weight, jax.sharding.NamedSharding(mesh, spec))
"""

from jax.sharding import Mesh, PartitionSpec
import numpy as np

MESH_SHAPE = {shape}
AXIS_NAMES = {names}
DEVICES = {ids}  # In row-major order.


def device_mesh(devices):
  by_id = {{device.id: device for device in devices}}
  order = np.array([by_id[i] for i in DEVICES], dtype=object)
  return Mesh(order.reshape(MESH_SHAPE), AXIS_NAMES)


# By tensor; of several axes for a dimension the first one is the major one.
PARTITION_SPECS = {tensors}

# For with_sharding_constraint: by module, and which of several results it is.
OUTPUT_PARTITION_SPECS = {outputs}
'''

# What a spec is there, of what has this name, and has these uneven dimensions.
_Form = Callable[[str, Spec, UserMesh, Collection[int]], str]


def dtensor_text(tensors: Iterable[tuple[OwnedTensor, Claim]],
                 outputs: Iterable[tuple[str,
                                         Boundary]], mesh: UserMesh) -> str:
  """The module for DTensor.

  Args:
    tensors: each with all of its names.
    outputs: by module.
    mesh: with axis names.

  Raises:
    PolicyError: a dimension is split by axes in another order than the mesh's,
      or unevenly by several, which placements do not say.
  """
  return _text(_DTENSOR, _placements, tensors, outputs, mesh)


def jax_text(tensors: Iterable[tuple[OwnedTensor, Claim]],
             outputs: Iterable[tuple[str, Boundary]], mesh: UserMesh) -> str:
  """The module for JAX; arguments as for `dtensor_text`.

  Raises:
    PolicyError: a dimension does not divide into its tiles.
  """
  return _text(_JAX, _partition_spec, tensors, outputs, mesh)


def _text(template: str, form: _Form, tensors: Iterable[tuple[OwnedTensor,
                                                              Claim]],
          outputs: Iterable[tuple[str, Boundary]], mesh: UserMesh) -> str:
  ids = mesh.device_ids
  sizes = dict(zip(mesh.axis_names or (), mesh.shape))
  return template.format(
      shape=mesh.shape,
      names=mesh.axis_names,
      ids=f'range({math.prod(mesh.shape)})' if ids is None else ids,
      tensors=_dict((name,
                     form(name, claim.spec, mesh,
                          dict(uneven(tensor.shape, claim.spec, sizes))), claim)
                    for tensor, claim in tensors
                    for name in tensor.names),
      outputs=_dict(((module, b.output),
                     form(f'boundary {b.module!r}', b.spec, mesh, ()), b)
                    for module, b in outputs))


def _dict(entries: Iterable[tuple[Any, str, Union[Claim, Boundary]]]) -> str:
  lines = [
      f'    {key!r}: {value},{_unsaid(said)}' for key, value, said in entries
  ]
  return '\n'.join(('{', *lines, '}'))


def _unsaid(said: Union[Claim, Boundary]) -> str:
  """A comment with what is said besides the spec, if anything is."""
  words = ', '.join(f'{word} {getattr(said, word)}' for word in ('priority',
                                                                 'propagate')
                    if getattr(said, word) is not None)
  return f'  # Not said here: {words}.' if words else ''


def _placements(name: str, spec: Spec, mesh: UserMesh,
                odd: Collection[int]) -> str:
  """A placement per mesh dimension; DTensor splits by them from left to right.
  """
  index = {axis: i for i, axis in enumerate(mesh.axis_names or ())}
  placed = ['Replicate()'] * len(index)
  for dim, entry in enumerate(spec):
    axes = [a for a in axes_of(entry) if mesh.shape[index[a]] > 1]
    in_order = tuple(sorted(axes, key=index.__getitem__))
    if in_order != tuple(axes):
      raise PolicyError(
          f'{name}: dimension {dim} is split over {tuple(axes)}, from major to '
          f'minor, and DTensor splits in the order of the mesh, {in_order}: '
          f'write {in_order} in the rule, or give a mesh of the same devices '
          f'that has these axes in the order {tuple(axes)}')
    if dim in odd and len(axes) > 1:
      raise PolicyError(
          f'{name}: dimension {dim} does not divide into its tiles, and over '
          f'several axes, {in_order}, DTensor makes other ones then: split it '
          'over one axis, or give it a size that divides')
    for axis in axes_of(entry):
      placed[index[axis]] = f'Shard({dim})'
  return f'({", ".join(placed)},)'


def _partition_spec(name: str, spec: Spec, mesh: UserMesh,
                    odd: Collection[int]) -> str:
  if odd:
    raise PolicyError(f'{name}: dimension {min(odd)} does not divide into its '
                      f'tiles, as {spec} asks, and JAX only splits evenly: '
                      'give it a size that divides, or leave it whole')
  return f'PartitionSpec({", ".join(map(repr, spec))})'
