"""What batch normalisation computes, whatever it is written in.

The arithmetic is that of XLA's compilers (xla/service/batchnorm_expander.cc),
operation by operation, so numbers are what they were, up to the order of a sum
that devices share. What depends on the feature alone is computed before it is
broadcast; XLA's simplifier does that to its own as well.

torch merges dimensions first: layer_norm of [batch, sequence, hidden] is one of
[1, batch * sequence, hidden] by its second dimension. Shardy takes a split of
the sequence through no such reshape, so it is computed by a `View` in which the
dimensions are apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
import dataclasses
import itertools
import math
from typing import Any, Protocol, TypeVar

Value = TypeVar('Value')


class Arithmetic(Protocol[Value]):
  """Makes operations for one normalisation.

  Values are of a view's dimensions or of its features; `binary` takes two of
  the same.

  Attributes:
    epsilon: for each feature, the number that a variance is kept from 0 by.
    count: for each feature, how many elements it has.
  """
  epsilon: Value
  count: Value

  def binary(self, opcode: str, a: Value, b: Value) -> Value:
    """'add', 'subtract', 'multiply' or 'divide'."""

  def rsqrt(self, a: Value) -> Value:
    """The reciprocal of the root."""

  def sum(self, a: Value) -> Value:
    """By feature, of a value of all dimensions."""

  def spread(self, a: Value) -> Value:
    """From the features to all dimensions."""


def training(on: Arithmetic[Value], x: Value, scale: Value,
             offset: Value) -> tuple[Value, ...]:
  """What is normalised, and by feature the mean and the variance."""
  mean = on.binary('divide', on.sum(x), on.count)
  mean_of_squares = on.binary('divide', on.sum(on.binary('multiply', x, x)),
                              on.count)
  variance = on.binary('subtract', mean_of_squares,
                       on.binary('multiply', mean, mean))
  by_deviation = on.rsqrt(on.binary('add', variance, on.epsilon))
  normal = on.binary('multiply', on.binary('subtract', x, on.spread(mean)),
                     on.spread(by_deviation))
  scaled = on.binary('multiply', normal, on.spread(scale))
  return on.binary('add', scaled, on.spread(offset)), mean, variance


def inference(on: Arithmetic[Value], x: Value, scale: Value, offset: Value,
              mean: Value, variance: Value) -> tuple[Value, ...]:
  """What is normalised by a mean and a variance that are given."""
  by_deviation = on.rsqrt(on.binary('add', variance, on.epsilon))
  factor = on.binary('multiply', scale, by_deviation)
  shift = on.binary('subtract', offset, on.binary('multiply', mean, factor))
  return (on.binary('add', on.binary('multiply', x, on.spread(factor)),
                    on.spread(shift)),)


def grad(on: Arithmetic[Value], x: Value, scale: Value, mean: Value,
         variance: Value, of_output: Value) -> tuple[Value, ...]:
  """The gradients of x, of the scale and of the offset."""
  variance = on.binary('add', variance, on.epsilon)
  by_deviation = on.rsqrt(variance)
  centred = on.binary('subtract', x, on.spread(mean))
  product = on.sum(on.binary('multiply', of_output, centred))
  of_offset = on.sum(of_output)
  of_scale = on.binary('multiply', product, by_deviation)
  by_product = on.binary('divide',
                         on.binary('multiply', on.spread(product), centred),
                         on.spread(variance))
  inner = on.binary(
      'subtract',
      on.binary('subtract', on.binary('multiply',
                                      of_output, on.spread(on.count)),
                on.spread(of_offset)), by_product)
  factor = on.binary('divide', on.binary('multiply', scale, by_deviation),
                     on.count)
  return (on.binary('multiply', on.spread(factor), inner), of_scale, of_offset)


@dataclasses.dataclass(frozen=True)
class Formula:
  """What one of the operations computes.

  Attributes:
    compute: from an `Arithmetic` and the operands to the results.
    operands: how many it takes.
  """
  compute: Callable[..., tuple[Any, ...]]
  operands: int


# By the last part of the operation's name.
FORMULAS = {
    'training': Formula(training, 3),
    'inference': Formula(inference, 5),
    'grad': Formula(grad, 5),
}
# The element types that are expanded, and those to compute in; XLA's names. A
# half has too few digits for a sum of squares; XLA's CPU compiler computes bf16
# so as well, f16 it does not.
COMPUTED_IN = {'bf16': 'f32', 'f16': 'f32', 'f32': 'f32', 'f64': 'f64'}


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
  def by_feature(self) -> tuple[int, ...]:
    return tuple(self.dims[n] for n in self.features)

  @property
  def count(self) -> int:
    """How many elements a feature has."""
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
