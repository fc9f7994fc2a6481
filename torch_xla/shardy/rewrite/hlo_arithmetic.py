"""Makes the instructions of HLO that a normalisation's formula asks for.

`normalisation` has the formulas; `batch_norm` puts what is made in its place.

torch merges dimensions first: layer_norm of [batch, sequence, hidden] is one of
[1, batch * sequence, hidden] by its second dimension. Shardy takes a split of
the sequence through no such reshape, so it is computed by a `View` in which the
dimensions are apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses
import functools
import itertools
import math
from typing import Any

from ..hlo import array_shape
from ..hlo.editor import dims_of, Editor
from ..hlo.protos import HloComputationProto, HloInstructionProto

# The element types that are expanded, and those to compute in; XLA's names. A
# half has too few digits for a sum of squares; XLA's CPU compiler computes bf16
# so as well, f16 it does not.
COMPUTED_IN = {'bf16': 'f32', 'f16': 'f32', 'f32': 'f32', 'f64': 'f64'}


class Writer:
  """Makes operations for one `batch-norm-*`.

  Values are of a view's dimensions or of its features; `binary` takes two of
  the same.

  Attributes:
    epsilon: for each feature, the number that a variance is kept from 0 by.
    count: for each feature, how many elements it has.
    instructions: the new ones, in order.
    unshaped: by the id of a result that was put in its shape, what it was
      before.
  """

  def __init__(self, instruction: HloInstructionProto,
               by_id: Mapping[int, HloInstructionProto],
               computation: HloComputationProto, editor: Editor):
    self.instructions: list[HloInstructionProto] = []
    self.unshaped: dict[int, HloInstructionProto] = {}
    self._instruction = instruction
    self._by_id = by_id
    self._computation = computation
    self._editor = editor
    self._common_fields = {
        field: getattr(instruction, field)
        for field in ('metadata', 'frontend_attributes')
        if instruction.HasField(field)
    }
    self._operands = [by_id[i] for i in instruction.operand_ids]
    x = self._operands[0].shape
    array, = array_shape.arrays_of(x)
    self._view = view_of(array.dims, instruction.feature_index, [
        dims_of(self._source(o))
        for o in self._operands
        if dims_of(o) == array.dims
    ])
    self._dtype = COMPUTED_IN[array.dtype]
    self._whole, self._by_feature, self._scalar = (
        array_shape.with_type(array_shape.with_dims(x, dims), self._dtype)
        for dims in (self._view.dims, self._view.feature_dims, ()))

  def run(
      self, compute: Callable[..., tuple[HloInstructionProto, ...]]
  ) -> list[HloInstructionProto]:
    """The results of a formula, in order, of their types and shapes."""
    whole = dims_of(self._operands[0])
    view = self._view
    operands = [
        self._put(o, view.dims if dims_of(o) == whole else view.feature_dims)
        for o in self._operands
    ]
    out = compute(self, *(self._converted(o, self._dtype) for o in operands))
    results = []
    for value, array in zip(
        out, array_shape.arrays_of(self._instruction.shape), strict=True):
      value = self._converted(value, array.dtype)
      results.append(self._put(value, array.dims))
      if results[-1].id != value.id:
        self.unshaped[results[-1].id] = value
    return results

  def _source(self, value: HloInstructionProto) -> HloInstructionProto:
    """The operand of a reshape, if it is one."""
    while value.opcode == 'reshape' and not value.HasField('sharding'):
      value = self._by_id[value.operand_ids[0]]
    return value

  def _put(self, value: HloInstructionProto,
           dims: tuple[int, ...]) -> HloInstructionProto:
    """A value in other dimensions."""
    if dims_of(value) == dims:
      return value
    value = self._source(value)
    if dims_of(value) == dims:
      return value
    return self._make('reshape', array_shape.with_dims(value.shape, dims),
                      value)

  @functools.cached_property
  def epsilon(self) -> HloInstructionProto:
    return self._make('broadcast', self._by_feature,
                      self._constant(self._instruction.epsilon))

  @functools.cached_property
  def count(self) -> HloInstructionProto:
    return self._make('broadcast', self._by_feature,
                      self._constant(self._view.count))

  @functools.cached_property
  def _zero(self) -> HloInstructionProto:
    return self._constant(0)

  def binary(self, opcode: str, a: HloInstructionProto,
             b: HloInstructionProto) -> HloInstructionProto:
    return self._make(opcode, a.shape, a, b)

  def rsqrt(self, a: HloInstructionProto) -> HloInstructionProto:
    """The reciprocal of the root."""
    return self._make('rsqrt', a.shape, a)

  def sum(self, a: HloInstructionProto) -> HloInstructionProto:
    """Sums a value of all dimensions by feature."""
    return self._make(
        'reduce',
        self._by_feature,
        a,
        self._zero,
        dimensions=self._view.others,
        called_computation_ids=[self._editor.adder_id(self._scalar)])

  def spread(self, a: HloInstructionProto) -> HloInstructionProto:
    """Broadcasts a value by feature to all dimensions."""
    return self._make(
        'broadcast', self._whole, a, dimensions=self._view.features)

  def _constant(self, number: float) -> HloInstructionProto:
    literal = {'shape': self._scalar, f'{self._dtype}s': [number]}
    return self._make('constant', self._scalar, literal=literal)

  def _converted(self, value: HloInstructionProto,
                 dtype: str) -> HloInstructionProto:
    if array_shape.arrays_of(value.shape)[0].dtype == dtype:
      return value
    return self._make('convert', array_shape.with_type(value.shape, dtype),
                      value)

  def _make(self, opcode: str, shape: bytes, *operands: HloInstructionProto,
            **fields: Any) -> HloInstructionProto:
    instruction = self._editor.make(self._computation, opcode, shape,
                                    [o.id for o in operands],
                                    **self._common_fields, **fields)
    self.instructions.append(instruction)
    return instruction


@dataclasses.dataclass(frozen=True)
class View:
  """The dimensions that a normalisation is computed in.

  Attributes:
    features: which of them are the features', ascending.
  """
  dims: tuple[int, ...]
  features: tuple[int, ...]

  @property
  def others(self) -> list[int]:
    return [n for n in range(len(self.dims)) if n not in self.features]

  @property
  def feature_dims(self) -> tuple[int, ...]:
    return tuple(self.dims[n] for n in self.features)

  @property
  def count(self) -> int:
    """The number of elements of a feature."""
    return math.prod(self.dims[n] for n in self.others)


def view_of(dims: Sequence[int], feature: int,
            sources: Iterable[Sequence[int]]) -> View:
  """The view of an operand that has these dimensions.

  Args:
    sources: the dimensions of what the operands of this shape are reshapes of.
      [8, 4, 16] for [1, 32, 16], whose feature is 1, gives [8, 4, 16] and its
      first two dimensions; [8, 6, 5] for [1, 16, 15] gives [8, 2, 3, 5].
  """
  for source in sources:
    ends = sorted({*_products(dims), *_products(source)})
    if not all(n and b % n == 0 for n, b in itertools.pairwise(ends)):
      continue
    if len(ends) > len(set(_products(dims))):
      before = math.prod(dims[:feature])
      after = before * dims[feature]
      return View(
          tuple(b // a for a, b in itertools.pairwise(ends)),
          tuple(n for n, end in enumerate(ends[1:]) if before < end <= after))
  return View(tuple(dims), (feature,))


def _products(dims: Sequence[int]) -> list[int]:
  return list(itertools.accumulate(dims, int.__mul__, initial=1))
