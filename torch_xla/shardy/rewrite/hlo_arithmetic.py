"""Makes the instructions of HLO that a normalisation's formula asks for.

See `normalisation.Arithmetic`; `batch_norm` puts them in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
import functools
from typing import Any

from ..hlo import array_shape
from ..hlo.editor import Editor
from .normalisation import COMPUTED_IN, view_of


class Adders:
  """The computations that sums are reduced by, one for each element type."""

  def __init__(self, editor: Editor):
    self.editor = editor
    self.made: dict[bytes, Any] = {}

  def of(self, scalar: bytes) -> int:
    """The id of the one for a shape."""
    if scalar not in self.made:
      made = self.editor.computation('shardy.add')
      operands = [
          self.editor.make(made, 'parameter', scalar, parameter_number=number)
          for number in range(2)
      ]
      total = self.editor.make(made, 'add', scalar, [i.id for i in operands])
      made.instructions.extend([*operands, total])
      made.root_id = total.id
      made.program_shape.parameters.extend([scalar, scalar])
      made.program_shape.result = scalar
      made.program_shape.parameter_names.extend(i.name for i in operands)
      self.made[scalar] = made
    return self.made[scalar].id


class Writer:
  """`Arithmetic` for one `batch-norm-*`.

  Attributes:
    made: instructions, in order.
    seen: by the id of a result that was put in its shape, what it was before.
  """

  def __init__(self, instruction: Any, by_id: Mapping[int, Any],
               computation: Any, adders: Adders):
    self.made: list[Any] = []
    self.seen: dict[int, Any] = {}
    self._instruction = instruction
    self._by_id = by_id
    self._computation = computation
    self._adders = adders
    self._said = {
        field: getattr(instruction, field)
        for field in ('metadata', 'frontend_attributes')
        if instruction.HasField(field)
    }
    self._operands = [by_id[i] for i in instruction.operand_ids]
    x = self._operands[0].shape
    array, = array_shape.arrays_of(x)
    self._view = view_of(array.dims, instruction.feature_index, [
        _dims(self._source(o)) for o in self._operands if _dims(o) == array.dims
    ])
    self._dtype = COMPUTED_IN[array.dtype]
    self._whole, self._by_feature, self._scalar = (
        array_shape.with_type(array_shape.with_dims(x, dims), self._dtype)
        for dims in (self._view.dims, self._view.by_feature, ()))

  def run(self, compute: Callable[..., tuple[Any, ...]]) -> list[Any]:
    """The results of a formula, in order, of their types and shapes."""
    whole = _dims(self._operands[0])
    view = self._view
    operands = [
        self._put(o, view.dims if _dims(o) == whole else view.by_feature)
        for o in self._operands
    ]
    made = compute(self, *(self._converted(o, self._dtype) for o in operands))
    results = []
    for value, array in zip(made,
                            array_shape.arrays_of(self._instruction.shape)):
      value = self._converted(value, array.dtype)
      results.append(self._put(value, array.dims))
      if results[-1].id != value.id:
        self.seen[results[-1].id] = value
    return results

  def _source(self, value: Any) -> Any:
    """What it is a reshape of."""
    while value.opcode == 'reshape' and not value.HasField('sharding'):
      value = self._by_id[value.operand_ids[0]]
    return value

  def _put(self, value: Any, dims: tuple[int, ...]) -> Any:
    """A value in other dimensions."""
    if _dims(value) == dims:
      return value
    value = self._source(value)
    if _dims(value) == dims:
      return value
    return self._make('reshape', array_shape.with_dims(value.shape, dims),
                      value)

  @functools.cached_property
  def epsilon(self) -> Any:
    return self._make('broadcast', self._by_feature,
                      self._constant(self._instruction.epsilon))

  @functools.cached_property
  def count(self) -> Any:
    return self._make('broadcast', self._by_feature,
                      self._constant(self._view.count))

  @functools.cached_property
  def _zero(self) -> Any:
    return self._constant(0)

  def binary(self, opcode: str, a: Any, b: Any) -> Any:
    return self._make(opcode, a.shape, a, b)

  def rsqrt(self, a: Any) -> Any:
    return self._make('rsqrt', a.shape, a)

  def sum(self, a: Any) -> Any:
    return self._make(
        'reduce',
        self._by_feature,
        a,
        self._zero,
        dimensions=self._view.others,
        called_computation_ids=[self._adders.of(self._scalar)])

  def spread(self, a: Any) -> Any:
    return self._make(
        'broadcast', self._whole, a, dimensions=self._view.features)

  def _constant(self, number: float) -> Any:
    literal = {'shape': self._scalar, f'{self._dtype}s': [number]}
    return self._make('constant', self._scalar, literal=literal)

  def _converted(self, value: Any, dtype: str) -> Any:
    if array_shape.arrays_of(value.shape)[0].dtype == dtype:
      return value
    return self._make('convert', array_shape.with_type(value.shape, dtype),
                      value)

  def _make(self, opcode: str, shape: bytes, *operands: Any,
            **fields: Any) -> Any:
    made = self._adders.editor.make(self._computation, opcode, shape,
                                    [o.id for o in operands], **self._said,
                                    **fields)
    self.made.append(made)
    return made


def _dims(instruction: Any) -> tuple[int, ...]:
  return array_shape.arrays_of(instruction.shape)[0].dims
