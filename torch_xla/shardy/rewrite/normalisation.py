"""The formulas of batch normalisation.

The arithmetic is that of XLA's compilers (xla/service/batchnorm_expander.cc), up
to the order of a sum that devices share. What depends on the feature alone is
computed before it is broadcast, so a training multiplies by the scale and the
deviation at once. In the gradient that costs kernels: each such value is one.
"""

from __future__ import annotations

from collections.abc import Callable

from ..hlo.protos import HloInstructionProto as Value
from .hlo_arithmetic import Writer


def training(on: Writer, x: Value, scale: Value,
             offset: Value) -> tuple[Value, ...]:
  """The normalised values, and by feature the mean and the variance."""
  mean = on.binary('divide', on.sum(x), on.count)
  mean_of_squares = on.binary('divide', on.sum(on.binary('multiply', x, x)),
                              on.count)
  variance = on.binary('subtract', mean_of_squares,
                       on.binary('multiply', mean, mean))
  by_deviation = on.rsqrt(on.binary('add', variance, on.epsilon))
  factor = on.binary('multiply', scale, by_deviation)
  scaled = on.binary('multiply', on.binary('subtract', x, on.spread(mean)),
                     on.spread(factor))
  return on.binary('add', scaled, on.spread(offset)), mean, variance


def inference(on: Writer, x: Value, scale: Value, offset: Value, mean: Value,
              variance: Value) -> tuple[Value, ...]:
  """The values normalised by a given mean and variance."""
  by_deviation = on.rsqrt(on.binary('add', variance, on.epsilon))
  factor = on.binary('multiply', scale, by_deviation)
  shift = on.binary('subtract', offset, on.binary('multiply', mean, factor))
  return (on.binary('add', on.binary('multiply', x, on.spread(factor)),
                    on.spread(shift)),)


def grad(on: Writer, x: Value, scale: Value, mean: Value, variance: Value,
         of_output: Value) -> tuple[Value, ...]:
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


# By opcode, from a `Writer` and the operands to the results, and how many
# operands there are.
FORMULAS: dict[str, tuple[Callable[..., tuple[Value, ...]], int]] = {
    'batch-norm-training': (training, 3),
    'batch-norm-inference': (inference, 5),
    'batch-norm-grad': (grad, 5),
}
