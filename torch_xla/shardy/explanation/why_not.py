"""Why a tensor is not split so, and what it would take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
import difflib
from typing import Union

from . import conflicts, text, trial
from ..compile.record import collectives
from .propagation import Propagation, Tensor, whole_axis

_MOST = 5

# A spec as `mark_sharding` takes it, with axes by their names.
Spec = Sequence[Union[None, str, Sequence[str]]]


def answer(program: bytes, propagation: Propagation, name: str,
           spec: Spec) -> Iterator[str]:
  """The lines of the answer that `Explanation.why_not` gives."""
  tensor = _named(propagation, name)
  axes = _axes(propagation, tensor, spec)
  asked = text.spec_of(axes)
  if text.spec_text(tensor) == asked:
    yield f'{name} {tensor.shape} is {asked}'
    return
  yield f'{name} {tensor.shape} is {text.spec_text(tensor)}, and not {asked}'
  for dim, of_dim in enumerate(axes):
    for axis in of_dim:
      yield from _standing(propagation, tensor, dim, axis)
  other = trial.split_so(program, propagation, tensor, axes)
  tensor_then = _named(other, name)
  if [d.axes for d in tensor_then.dims] == [tuple(a) for a in axes]:
    yield '  it can be, before all else'
  else:
    yield (f'  it cannot be: asked for before all else, it is '
           f'{text.spec_text(tensor_then)} and moved afterwards')
  changed = [
      change for change in text.changes(propagation, other)
      if not change.startswith(f'{name} ')
  ]
  yield f'  other tensors that are split otherwise then: {len(changed)}'
  yield from (f'    {change}' for change in changed[:_MOST])
  if len(changed) > _MOST:
    yield f'    and {len(changed) - _MOST} more'
  yield ('  moved now, as Shardy plans it: '
         f'{collectives(propagation.collectives())}')
  yield f'  moved then: {collectives(other.collectives())}'


def _named(found: Propagation, name: str) -> Tensor:
  for tensor in found.tensors:
    if tensor.name == name:
      return tensor
  names = dict.fromkeys(t.name for t in found.tensors)
  near = difflib.get_close_matches(name, names, 3)
  raise ValueError(f'no tensor is called {name!r}: ' + (
      f'did you mean {", ".join(near)}?' if near else "--tensor '*' has all"))


def _axes(propagation: Propagation, tensor: Tensor,
          spec: Spec) -> list[tuple[str, ...]]:
  axes = [() if entry is None else
          (entry,) if isinstance(entry, str) else tuple(entry)
          for entry in spec]
  if len(axes) != len(tensor.dims):
    raise ValueError(
        f'{tuple(spec)!r} has {len(axes)} entries, and '
        f'{tensor.name} {tensor.shape} {len(tensor.dims)} dimensions')
  axes_so_far: set[str] = set()
  for axis in (axis for of_dim in axes for axis in of_dim):
    if axis not in propagation.mesh or axis in axes_so_far:
      raise ValueError(f'{tuple(spec)!r}: {axis!r} ' + (
          'is there twice' if axis in axes_so_far else
          f'is no axis of the mesh, which has {", ".join(propagation.mesh)}'))
    axes_so_far.add(axis)
  return axes


def _standing(propagation: Propagation, tensor: Tensor, dim: int,
              axis: str) -> Iterator[str]:
  """Why an axis is not in a dimension; nothing where it is."""
  if axis in map(whole_axis, tensor.dims[dim].axes):
    return
  number = propagation.tensors.index(tensor)
  for refusal in conflicts.refusals(propagation):
    if (refusal.target, refusal.dim, whole_axis(refusal.axis)) == (number, dim,
                                                                   axis):
      winner = propagation.origins.get(refusal.winner)
      yield (f'  {axis!r} was refused at '
             f'{propagation.operations[refusal.operation].name}: '
             f'it {refusal.reason.value}' +
             (f', by {winner.name}' if winner else ''))
      return
  if axis in map(whole_axis, tensor.axes):
    origin = propagation.origins.get(tensor.origin_of(axis))
    yield (f'  {axis!r} splits another dimension of it' +
           (f', by {origin.name}' if origin else ''))
  else:
    yield f'  no annotation brings {axis!r} there'
