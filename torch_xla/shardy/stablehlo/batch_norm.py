"""Writes batch normalisation out, for Shardy: a module in MLIR, in place.

    before   %y, %mean, %variance = "stablehlo.batch_norm_training"(%x, ..)
    after    %sum = stablehlo.reduce(%x init: %zero) across dimensions = [0]
             %mean = stablehlo.divide %sum, %count
             ..
             %y = stablehlo.add %scaled, %offset

As `sdy.batch_norm`, which says why, does it to HLO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import functools
from typing import Any, Optional

from . import dialects
from .functions import array_of, owner_of, SHARDING_ATTRIBUTE
from ..sdy.normalisation import COMPUTED_IN, Formula, FORMULAS, view_of

_DIALECT = 'stablehlo.'
_OPERATION = f'{_DIALECT}batch_norm_'
_RESHAPE = f'{_DIALECT}reshape'
_OWN = ('epsilon', 'feature_index')


def expand(module: Any) -> int:
  """Expands every `stablehlo.batch_norm_*` of a module, in place.

  Locations and attributes go to all that takes its place, the sharding of an
  inference to its result. What is left: a training or a gradient with a
  sharding of its own, which is said of three values at once; dynamic shapes;
  and element types that are not in `normalisation.COMPUTED_IN`.

  Call it before `extract.take`, which notes operations that have shardings.

  Returns:
    How many were expanded.
  """
  found = [o for o in dialects.operations_of(module) if _is_expandable(o)]
  with dialects.scope(module):
    for operation in found:
      _expand(operation)
  return len(found)


def _formula_of(operation: Any) -> Formula:
  return FORMULAS[operation.name[len(_OPERATION):]]


def _is_expandable(operation: Any) -> bool:
  if not operation.name.startswith(_OPERATION):
    return False
  if SHARDING_ATTRIBUTE in operation.attributes and len(operation.results) > 1:
    return False
  arrays = [array_of(v.type) for v in (*operation.operands, *operation.results)]
  return all(a is not None and a.dtype in COMPUTED_IN for a in arrays)


def _expand(operation: Any) -> None:
  from jaxlib.mlir import ir
  given = {a.name: a.attr for a in _named(operation) if a.name not in _OWN}
  sharding = given.pop(SHARDING_ATTRIBUTE, None)
  with ir.InsertionPoint(operation), operation.location:
    writer = _Writer(operation, given)
    results = list(operation.results)
    for result, value in zip(results, writer.run()):
      value = writer.converted(value, array_of(result.type).dtype)
      shaped = writer.put(value, _dims(result))
      result.replace_all_uses_with(shaped)
      if sharding is not None:
        shaped.owner.attributes[SHARDING_ATTRIBUTE] = sharding
      elif shaped != value:
        _forget_shape(shaped, value)
  operation.erase()


def _named(operation: Any) -> list[Any]:
  attributes = operation.attributes
  return [attributes[i] for i in range(len(attributes))]


def _dims(value: Any) -> tuple[int, ...]:
  return array_of(value.type).dims


def _source(value: Any) -> Any:
  """What it is a reshape of."""
  owner = owner_of(value)
  while (owner is not None and owner.name == _RESHAPE and
         SHARDING_ATTRIBUTE not in owner.attributes and
         array_of(owner.operands[0].type) is not None):
    value = owner.operands[0]
    owner = owner_of(value)
  return value


def _forget_shape(shaped: Any, value: Any) -> None:
  """Has reshapes of a value that was put in a shape be of the value itself."""
  for user in [use.owner for use in shaped.uses]:
    if user.operation.name == _RESHAPE:
      user.operation.operands[0] = value
  if not any(True for _ in shaped.uses):
    shaped.owner.erase()


class _Writer:
  """`Arithmetic` for one operation: makes others where we are.

  Args:
    given: attributes for all of them.
  """

  def __init__(self, operation: Any, given: Mapping[str, Any]):
    from jaxlib.mlir import ir
    self._given = given
    self._operation = operation
    self._operands = list(operation.operands)
    x = array_of(self._operands[0].type)
    feature = ir.IntegerAttr(operation.attributes['feature_index']).value
    self._view = view_of(
        x.dims, feature,
        [_dims(_source(o)) for o in self._operands if _dims(o) == x.dims])
    self._dtype = COMPUTED_IN[x.dtype]
    self._kinds = {
        'bf16': ir.BF16Type,
        'f16': ir.F16Type,
        'f32': ir.F32Type,
        'f64': ir.F64Type
    }

  def run(self) -> tuple[Any, ...]:
    """The results, in the view's dimensions and the type to compute in."""
    whole, view = _dims(self._operands[0]), self._view
    operands = [
        self.put(o, view.dims if _dims(o) == whole else view.by_feature)
        for o in self._operands
    ]
    return _formula_of(self._operation).compute(
        self, *(self.converted(o, self._dtype) for o in operands))

  def put(self, value: Any, dims: tuple[int, ...]) -> Any:
    """A value in other dimensions."""
    if _dims(value) != dims:
      value = _source(value)
    if _dims(value) != dims:
      kind = self._tensor(dims, array_of(value.type).dtype)
      value = self._make('reshape', kind, [value])
    return value

  def converted(self, value: Any, dtype: str) -> Any:
    if array_of(value.type).dtype == dtype:
      return value
    return self._make('convert', self._tensor(_dims(value), dtype), [value])

  @functools.cached_property
  def epsilon(self) -> Any:
    from jaxlib.mlir import ir
    number = ir.FloatAttr(self._operation.attributes['epsilon']).value
    return self._broadcast(self._constant(number), self._view.by_feature, [])

  @functools.cached_property
  def count(self) -> Any:
    number = self._constant(self._view.count)
    return self._broadcast(number, self._view.by_feature, [])

  @functools.cached_property
  def _zero(self) -> Any:
    return self._constant(0)

  def binary(self, opcode: str, a: Any, b: Any) -> Any:
    return self._make(opcode, a.type, [a, b])

  def rsqrt(self, a: Any) -> Any:
    return self._make('rsqrt', a.type, [a])

  def sum(self, a: Any) -> Any:
    from jaxlib.mlir import ir
    made = self._make(
        'reduce', self._tensor(self._view.by_feature,
                               self._dtype), [a, self._zero],
        {'dimensions': ir.DenseI64ArrayAttr.get(self._view.others)}, 1)
    scalar = self._zero.type
    block = made.owner.regions[0].blocks.append(scalar, scalar)
    with ir.InsertionPoint(block):
      total = ir.Operation.create(
          f'{_DIALECT}add', results=[scalar], operands=list(block.arguments))
      ir.Operation.create(f'{_DIALECT}return', operands=total.results)
    return made

  def spread(self, a: Any) -> Any:
    return self._broadcast(a, self._view.dims, self._view.features)

  def _tensor(self, dims: Sequence[int], dtype: str) -> Any:
    from jaxlib.mlir import ir
    return ir.RankedTensorType.get(dims, self._kinds[dtype].get())

  def _constant(self, number: float) -> Any:
    from jaxlib.mlir import ir
    kind = self._tensor((), self._dtype)
    value = ir.DenseElementsAttr.get_splat(
        kind, ir.FloatAttr.get(kind.element_type, number))
    return self._make('constant', kind, [], {'value': value})

  def _broadcast(self, value: Any, dims: Sequence[int],
                 places: Sequence[int]) -> Any:
    from jaxlib.mlir import ir
    return self._make(
        'broadcast_in_dim', self._tensor(dims, self._dtype), [value],
        {'broadcast_dimensions': ir.DenseI64ArrayAttr.get(list(places))})

  def _make(self,
            opcode: str,
            kind: Any,
            operands: list[Any],
            attributes: Optional[Mapping[str, Any]] = None,
            regions: int = 0) -> Any:
    from jaxlib.mlir import ir
    return ir.Operation.create(
        _DIALECT + opcode,
        results=[kind],
        operands=operands,
        attributes={
            **self._given,
            **(attributes or {})
        },
        regions=regions).results[0]
