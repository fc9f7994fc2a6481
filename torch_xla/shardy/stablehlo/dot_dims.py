"""Takes merges of dimensions out of matrix products: MLIR, in place.

    before   %a = stablehlo.reshape %q : (tensor<8x4x5x16xf32>) -> ..32x5x16
             %b = stablehlo.reshape %k : (tensor<8x4x16x5xf32>) -> ..32x16x5
             %c = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], ..
             %d = stablehlo.reshape %c : (tensor<32x5x5xf32>) -> ..8x4x5x5
    after    %d = stablehlo.dot_general %q, %k, batching_dims = [0, 1] x [0, 1]

As `sdy.dot_dims`, which says why, does it to HLO.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

from . import dialects
from .functions import array_of, erase_unused, owner_of, SHARDING_ATTRIBUTE
from ..sdy.dot_dims import ELEMENTWISE
from ..sdy.merged_dims import Dims, merge, Merged, product, ProductDims

_DIALECT = 'stablehlo.'
_DOT, _GENERAL = f'{_DIALECT}dot', f'{_DIALECT}dot_general'
_RESHAPE, _TRANSPOSE = f'{_DIALECT}reshape', f'{_DIALECT}transpose'
_BROADCAST = f'{_DIALECT}broadcast_in_dim'
_NUMBERS, _PLACES = 'dot_dimension_numbers', 'broadcast_dimensions'


def unmerge(module: Any) -> int:
  """Takes merges out of the products of a module, in place.

  Call it before `extract.take`, which notes operations that have shardings.

  Returns:
    Of how many products.
  """
  found = [
      o for o in dialects.operations_of(module)
      if o.name in (_DOT, _GENERAL) and _is_plain(o)
  ]
  with dialects.scope(module):
    count = sum(_unmerge(operation) for operation in found)
  if count:
    erase_unused(module)
  return count


def _is_plain(operation: Any) -> bool:
  """Whether nothing is said of it but what it computes, of arrays."""
  return (SHARDING_ATTRIBUTE not in operation.attributes and
          len(operation.results) == 1 and not len(operation.regions) and all(
              array_of(v.type) is not None
              for v in (*operation.operands, *operation.results)))


def _unmerge(operation: Any) -> bool:
  lhs, rhs = operation.operands
  (lhs_source, lhs_form), (rhs_source, rhs_form) = map(_form_of, (lhs, rhs))
  found = product(lhs_form, rhs_form, _dims_of(operation))
  if found is None:
    return False
  at = _At(operation)
  made = at.make(_GENERAL, operation.results[0], found.result.source, [
      at.reshaped(lhs_source, found.lhs.source),
      at.reshaped(rhs_source, found.rhs.source)
  ], {
      **_attributes(operation), _NUMBERS: _numbers(found.dims)
  })
  _replace(operation, made, found.result)
  return True


def _form_of(value: Any) -> tuple[Any, Merged]:
  """What a value is a reshape of, and how."""
  owner = owner_of(value)
  dims = _dims(value)
  if owner is not None and _is_plain(owner):
    if owner.name == _RESHAPE:
      source = owner.operands[0]
      groups = merge(_dims(source), dims)
      if groups is not None:
        return source, Merged(_dims(source), groups)
    elif owner.name == _TRANSPOSE:
      source, form = _form_of(owner.operands[0])
      if form.merges:
        return source, form.transposed(_integers(owner, 'permutation'))
  return value, Merged.plain(dims)


def _replace(operation: Any, made: Any, form: Merged) -> None:
  """Has what used an operation use `made`, of which it is a reshape."""
  result = operation.results[0]
  merged = _At(operation).reshaped(made, _dims(result))
  result.replace_all_uses_with(merged)
  operation.erase()
  if merged != made:
    _go_on(merged, made, form)


def _go_on(merged: Any, source: Any, form: Merged) -> None:
  """Takes the merge out of what follows a product.

  Args:
    merged: a reshape of `source`.
  """
  # Anew each time: what follows one user may be another, and is then erased.
  while any(
      _is_plain(user) and _take_out(user, merged, source, form)
      for user in _users(merged)):
    pass


def _take_out(user: Any, merged: Any, source: Any, form: Merged) -> bool:
  """Has a user of `merged` use `source`; whether anything was changed."""
  if user.name == _RESHAPE:
    _reshape(user, source)
    return True
  if user.name == _TRANSPOSE:
    order = form.transposed(_integers(user, 'permutation')).order
    after = [
        u for u in _users(user.results[0])
        if u.name == _RESHAPE and _is_plain(u)
    ]
    if after:
      turned = _At(user).transposed(source, order)
      for one in after:
        _reshape(one, turned)
    return bool(after)
  if user.name == _BROADCAST:
    is_same = (
        _dims(user.results[0]) == _dims(merged) and
        _integers(user, _PLACES) == tuple(range(len(_dims(merged)))))
    if is_same:
      user.results[0].replace_all_uses_with(merged)
      user.erase()
    return is_same
  if (user.name.removeprefix(_DIALECT) not in ELEMENTWISE or
      any(_dims(o) != _dims(merged) for o in user.operands)):
    return False
  at = _At(user)
  operands = [
      source if o == merged else at.split(o, form) for o in user.operands
  ]
  made = at.make(user.name, user.results[0], form.source, operands,
                 _attributes(user))
  _replace(user, made, form)
  return True


def _reshape(operation: Any, source: Any) -> None:
  """Has a reshape of a reshape be one."""
  result = operation.results[0]
  if _dims(result) == _dims(source):
    result.replace_all_uses_with(source)
    operation.erase()
  else:
    operation.operands[0] = source


class _At:
  """Makes operations right before another."""

  def __init__(self, operation: Any):
    self._before = operation

  def make(self, name: str, like: Any, dims: Sequence[int],
           operands: Sequence[Any], attributes: dict[str, Any]) -> Any:
    from jaxlib.mlir import ir
    element = ir.RankedTensorType(like.type).element_type
    with ir.InsertionPoint(self._before), self._before.location:
      return ir.Operation.create(
          name,
          results=[ir.RankedTensorType.get(list(dims), element)],
          operands=list(operands),
          attributes=attributes).results[0]

  def reshaped(self, value: Any, dims: Dims) -> Any:
    if _dims(value) == tuple(dims):
      return value
    return self.make(_RESHAPE, value, dims, [value], {})

  def transposed(self, value: Any, order: Dims) -> Any:
    from jaxlib.mlir import ir
    before = _dims(value)
    return self.make(_TRANSPOSE, value, [before[n] for n in order], [value],
                     {'permutation': ir.DenseI64ArrayAttr.get(list(order))})

  def split(self, value: Any, form: Merged) -> Any:
    """An array of merged dimensions in those of the source."""
    from jaxlib.mlir import ir
    source, own = _form_of(value)
    if own == form:
      return source
    owner = owner_of(value)
    if owner is not None and owner.name == _BROADCAST and _is_plain(owner):
      groups = [form.groups[n] for n in _integers(owner, _PLACES)]
      if all(len(group) == 1 for group in groups):
        places = ir.DenseI64ArrayAttr.get([group[0] for group in groups])
        return self.make(_BROADCAST, value, form.source, owner.operands, {
            **_attributes(owner), _PLACES: places
        })
    return self.reshaped(value, form.source)


def _users(value: Any) -> list[Any]:
  found: list[Any] = []
  for use in value.uses:
    user = use.owner.operation
    if user not in found:
      found.append(user)
  return found


def _dims(value: Any) -> Dims:
  return array_of(value.type).dims


def _attributes(operation: Any) -> dict[str, Any]:
  attributes = operation.attributes
  named = [attributes[n] for n in range(len(attributes))]
  return {a.name: a.attr for a in named}


def _integers(operation: Any, name: str) -> Dims:
  from jaxlib.mlir import ir
  return tuple(ir.DenseI64ArrayAttr(operation.attributes[name]))


def _dims_of(operation: Any) -> ProductDims:
  from jaxlib.mlir.dialects import stablehlo
  if operation.name == _DOT:
    rank = len(_dims(operation.operands[0]))
    return ProductDims((), (), (rank - 1,), (0,))
  numbers = stablehlo.DotDimensionNumbers(operation.attributes[_NUMBERS])
  return ProductDims(
      tuple(numbers.lhs_batching_dimensions),
      tuple(numbers.rhs_batching_dimensions),
      tuple(numbers.lhs_contracting_dimensions),
      tuple(numbers.rhs_contracting_dimensions))


def _numbers(dims: ProductDims) -> Optional[Any]:
  from jaxlib.mlir.dialects import stablehlo
  return stablehlo.DotDimensionNumbers.get(*map(list, dims))
