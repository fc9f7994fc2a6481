"""Metrics that are global, and shown to be.

A loss that was computed under manual sharding, on one of several replicas or in
one of several processes is a number like any other: nothing tells that it is
only this device's. `global_mean`, `global_sum` and `global_max` reduce on the
device and return a number only after it was shown to be everybody's:

- SPMD: the compiled program says that the result is replicated, and its copies
  on all devices of this process are the same to the bit. Where the mesh spans
  processes, they compare what they hold through `torch.distributed`.
- One device: there is nothing to compare. Of several replicas
  (`torch_xla.launch`), or of processes whose runtimes cannot reach one another,
  a value is refused.

All processes must make the same calls in the same order. A call computes what
it needs of the pending graph and waits for it, like `item()`; after
`torch_xla.sync()` nothing is computed twice.
"""

from __future__ import annotations

import dataclasses
from typing import Optional, Union

import torch

from . import global_values
from .global_values import LocalValueError

__all__ = [
    'EmptyMetricError', 'GlobalMetric', 'LocalValueError', 'MetricTypeError',
    'NotXlaTensorError', 'Proof', 'WeightError', 'global_max', 'global_mean',
    'global_sum'
]


class NotXlaTensorError(TypeError):
  """An argument that is no tensor on an XLA device."""


class MetricTypeError(TypeError):
  """The metric is not defined for this dtype."""


class EmptyMetricError(ValueError):
  """Raised where there is no element, or no weight, to compute from."""


class WeightError(ValueError):
  """The weights do not fit the tensor."""


@dataclasses.dataclass(frozen=True)
class Proof:
  """Why a number may be called global.

  Attributes:
    devices: whose copies of the result were the same to the bit: all devices
      of this process's mesh.
    processes: how many processes compared results through `torch.distributed`.
  """
  devices: tuple[str, ...]
  processes: int


@dataclasses.dataclass(frozen=True)
class GlobalMetric:
  """A number that is the same everywhere.

  Attributes:
    value: 0-d tensor on the CPU. int64 for integers and bools, float64 for
      float64, float32 for all other floating-point inputs.
    count: how many elements went into it, or the sum of their weights.
    proof: what shows it.
  """
  value: torch.Tensor
  count: Union[int, float]
  proof: Proof

  def item(self) -> Union[int, float]:
    return self.value.item()

  def __float__(self) -> float:
    return float(self.value)


def global_sum(t: torch.Tensor) -> GlobalMetric:
  """The sum of all elements of `t` on all devices and in all processes.

  Args:
    t: any shape, on an XLA device.

  Raises:
    LocalValueError: the result is only some device's or process's own.
    NotXlaTensorError, MetricTypeError: `t` cannot be summed here.
    EmptyMetricError: `t` has no element.
  """
  _check(t, 'global_sum')
  parts = [_accumulable(t).sum(), _count(t)]
  (total, count), proof = _reduce('global_sum', parts)
  return _metric('global_sum', total, count, proof)


def global_mean(
    t: torch.Tensor,
    weight: Union[None, int, float, torch.Tensor] = None) -> GlobalMetric:
  """The sum of `t * weight` over the sum of the weights, both global.

  Without weights each element counts once, so that a batch of fewer elements
  has less to say. A mean that was taken per process counts right with that
  process's batch size as its weight, and a padded batch with its mask: what has
  weight 0 is left out, even NaN.

  >>> global_mean(losses)                    # one per sample
  >>> global_mean(losses, mask)              # of a padded batch
  >>> global_mean(loss, weight=batch_size)   # a mean over this process's batch

  Args:
    t: any shape, floating point, on an XLA device.
    weight: a number, or a tensor on the same device that broadcasts to `t`'s
      shape. None of them may be negative, which is not checked.

  Raises:
    LocalValueError: the result is only some device's or process's own.
    NotXlaTensorError, MetricTypeError, WeightError: no mean is defined.
    EmptyMetricError: there is no element, or the weights add up to 0.
  """
  _check(t, 'global_mean')
  if not t.is_floating_point():
    raise MetricTypeError(
        f'global_mean of {t.dtype}: convert it first, with t.float()')
  values = _accumulable(t)
  if weight is None:
    parts = [values.sum(), _count(t)]
  else:
    weights = _weights(weight, values)
    weighted = torch.where(weights != 0, values * weights, 0)
    parts = [weighted.sum(), _accumulable(weights).sum()]
  (total, count), proof = _reduce('global_mean', parts)
  return _metric('global_mean', total / count, count, proof)


def global_max(t: torch.Tensor) -> GlobalMetric:
  """The greatest element of `t` on all devices and in all processes.

  NaN if any element is. NaNs and negative infinities are counted apart: XLA:CPU
  loses NaNs in an all-reduce, and torch_xla's maximum starts from the least
  finite number.

  Args:
    t: any shape, on an XLA device.

  Raises:
    LocalValueError: the result is only some device's or process's own.
    NotXlaTensorError, MetricTypeError: `t` has no maximum here.
    EmptyMetricError: `t` has no element.
  """
  _check(t, 'global_max')
  values = _accumulable(t)
  info = torch.finfo if values.is_floating_point() else torch.iinfo
  lowest = info(values.dtype).min
  nan = torch.isnan(values)
  negative_infinity = values == float('-inf')
  # `amax()` without dimensions does not reduce on XLA in 2.9.
  largest = torch.where(nan, lowest, values).max()
  parts = [largest, nan.sum(), negative_infinity.sum(), _count(t)]
  (largest, nans, infinities, count), proof = _reduce('global_max', parts)
  if nans > 0:
    largest = torch.full_like(largest, float('nan'))
  elif 0 < infinities == count:
    largest = torch.full_like(largest, float('-inf'))
  return _metric('global_max', largest, count, proof)


def _check(t: torch.Tensor, name: str) -> None:
  """Raises an exception if no metric can be made of `t`."""
  if not isinstance(t, torch.Tensor) or t.device.type != 'xla':
    what = (f'a tensor on {t.device}'
            if isinstance(t, torch.Tensor) else f'a {type(t).__name__}')
    raise NotXlaTensorError(
        f'{name} reduces on the device and was given {what}; pass the XLA '
        'tensor, before it is read to the host')
  if t.is_complex():
    raise MetricTypeError(
        f'{name} of {t.dtype}: reduce t.real and t.imag, or t.abs()')
  if not t.numel():
    raise EmptyMetricError(f'{name}: there are no elements')


def _accumulable(t: torch.Tensor) -> torch.Tensor:
  """The tensor in a dtype in which sums lose little, as a plain one."""
  t = global_values.plain(t)
  if not t.is_floating_point():
    return t.to(torch.int64)
  return t if t.dtype == torch.float64 else t.to(torch.float32)


def _weights(weight: Union[int, float, torch.Tensor],
             values: torch.Tensor) -> torch.Tensor:
  """One weight per element of `values`, on its device."""
  if isinstance(weight, torch.Tensor):
    if weight.device != values.device:
      raise WeightError(f'the weights are on {weight.device}, what they weigh '
                        f'is on {values.device}; move them there')
    weight = global_values.plain(weight)
  else:
    # By way of the host: a number in the graph is compiled into the program,
    # and there is a new one with each uneven batch.
    weight = torch.tensor(weight).to(values.device)
  try:
    return weight.expand(values.shape)
  except RuntimeError as e:
    raise WeightError(
        f'weights of shape {tuple(weight.shape)} do not broadcast to '
        f'{tuple(values.shape)}') from e


def _count(t: torch.Tensor) -> torch.Tensor:
  ones = torch.ones(t.shape, dtype=torch.int64, device=t.device)
  return ones.sum()


def _metric(name: str, value: torch.Tensor, count: torch.Tensor,
            proof: Proof) -> GlobalMetric:
  if count.item() == 0:
    raise EmptyMetricError(f'{name}: there are only elements of weight 0')
  return GlobalMetric(value, count.item(), proof)


def _reduce(name: str,
            parts: list[torch.Tensor]) -> tuple[list[torch.Tensor], Proof]:
  """Computes 0-d tensors, and shows that they are the same everywhere.

  Returns:
    The tensors on the CPU.
  """
  spans_processes = global_values.spans_processes()
  values: list[torch.Tensor] = []
  devices: tuple[str, ...] = ()
  error: Optional[LocalValueError] = None
  try:
    values, devices = global_values.over_mesh(parts)
  except LocalValueError as e:
    error = e
  if not spans_processes:
    if error is not None:
      raise LocalValueError(f'{name}: {error}') from error
    return values, Proof(devices, 1)
  # The others wait for this process: they hear of the error too.
  shared = global_values.exchange(name, error, values)
  global_values.check_same(name, [f'process {i}' for i in range(len(shared))],
                           shared)
  return values, Proof(devices, len(shared))
