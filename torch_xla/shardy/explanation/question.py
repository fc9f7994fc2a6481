"""Why a tensor is not split so, and what it would take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
import difflib
from typing import Union

from . import conflicts, text, trial
from ..compile.record import collectives
from .propagation import Propagation, Tensor, whole_axis

_MOST = 5

# As `mark_sharding` takes it, with axes by their names.
Spec = Sequence[Union[None, str, Sequence[str]]]


def answer(program: bytes, found: Propagation, name: str,
           spec: Spec) -> Iterator[str]:
  """The lines of the answer that `Explanation.why_not` gives."""
  tensor = _named(found, name)
  axes = _axes(found, tensor, spec)
  asked = text.spec_of(axes)
  if text.spec_text(tensor) == asked:
    yield f'{name} {tensor.shape} is {asked}'
    return
  yield f'{name} {tensor.shape} is {text.spec_text(tensor)}, and not {asked}'
  for dim, of_dim in enumerate(axes):
    for axis in of_dim:
      yield from _standing(found, tensor, dim, axis)
  other = trial.split_so(program, found, tensor, axes)
  made = _named(other, name)
  if [d.axes for d in made.dims] == [tuple(a) for a in axes]:
    yield '  it can be, before all else'
  else:
    yield (f'  it cannot be: asked for before all else, it is '
           f'{text.spec_text(made)} and moved afterwards')
  changed = [
      change for change in text.changes(found, other)
      if not change.startswith(f'{name} ')
  ]
  yield f'  other tensors that are split otherwise then: {len(changed)}'
  yield from (f'    {change}' for change in changed[:_MOST])
  if len(changed) > _MOST:
    yield f'    and {len(changed) - _MOST} more'
  yield f'  moved now, as Shardy plans it: {collectives(found.collectives())}'
  yield f'  moved then: {collectives(other.collectives())}'


def _named(found: Propagation, name: str) -> Tensor:
  for tensor in found.tensors:
    if tensor.name == name:
      return tensor
  names = dict.fromkeys(t.name for t in found.tensors)
  near = difflib.get_close_matches(name, names, 3, 0)
  raise ValueError(f'no tensor is called {name!r}; there are {", ".join(near)}')


def _axes(found: Propagation, tensor: Tensor,
          spec: Spec) -> list[tuple[str, ...]]:
  axes = [() if entry is None else
          (entry,) if isinstance(entry, str) else tuple(entry)
          for entry in spec]
  if len(axes) != len(tensor.dims):
    raise ValueError(
        f'{tuple(spec)!r} has {len(axes)} entries, and '
        f'{tensor.name} {tensor.shape} {len(tensor.dims)} dimensions')
  used: set[str] = set()
  for axis in (axis for of_dim in axes for axis in of_dim):
    if axis not in found.mesh or axis in used:
      raise ValueError(f'{tuple(spec)!r}: {axis!r} ' + (
          'is there twice' if axis in used else
          f'is no axis of the mesh, which has {", ".join(found.mesh)}'))
    used.add(axis)
  return axes


def _standing(found: Propagation, tensor: Tensor, dim: int,
              axis: str) -> Iterator[str]:
  """Why an axis is not in a dimension; nothing where it is."""
  if axis in map(whole_axis, tensor.dims[dim].axes):
    return
  number = found.tensors.index(tensor)
  for one in conflicts.refusals(found):
    if (one.target, one.dim, whole_axis(one.axis)) == (number, dim, axis):
      winner = found.origins.get(one.winner)
      yield (f'  {axis!r} was refused at '
             f'{found.operations[one.operation].name}: it {one.reason.value}' +
             (f', by {winner.name}' if winner else ''))
      return
  if axis in map(whole_axis, tensor.axes):
    origin = found.origins.get(tensor.origin_of(axis))
    yield (f'  {axis!r} splits another dimension of it' +
           (f', by {origin.name}' if origin else ''))
  else:
    yield f'  no annotation brings {axis!r} there'
