"""Compares what a device computed with what torch computed on the CPU."""

from __future__ import annotations

from collections.abc import Iterable
import dataclasses
from typing import Any

from .case import Failure
from .torch_modules import torch


def dtype_name(dtype: torch.dtype) -> str:
  """The short name of a dtype: 'float32' for torch.float32."""
  return str(dtype).removeprefix('torch.')


@dataclasses.dataclass(frozen=True)
class Tolerance:
  """The tolerance of a result, for each dtype that it can have.

  A number may be off by its dtype's ratio, of the expected number's magnitude
  or of `floor`, whichever is more. Whole numbers and bools may not be off.

  Attributes:
    float64, float32, float16, bfloat16: the ratios.
    floor: a magnitude; what is nearer to zero is allowed no less for it.
    signed_zeros: whether 0.0 and -0.0 are different results.
  """
  float64: float = 0.0
  float32: float = 0.0
  float16: float = 0.0
  bfloat16: float = 0.0
  floor: float = 0.0
  signed_zeros: bool = False

  def ratio(self, dtype: torch.dtype) -> float:
    """The ratio of a result of this dtype."""
    return {
        torch.float64: self.float64,
        torch.float32: self.float32,
        torch.float16: self.float16,
        torch.bfloat16: self.bfloat16,
    }.get(dtype, 0.0)

  def text(self, dtype: torch.dtype) -> str:
    """The tolerance for results of this dtype, in words."""
    ratio = self.ratio(dtype)
    if not ratio:
      return 'allowed none'
    floor = f', of {self.floor:g} at least' if self.floor else ''
    return f'allowed {ratio:.1g} relative{floor}'


# A result that is moved or chosen, not computed: bit for bit.
SAME_BITS = Tolerance(signed_zeros=True)
# A result that every order of computing gives exactly. What sums to zero may
# have either sign.
EXACT = Tolerance()
# One operation that IEEE 754 rounds correctly, and that devices may not: a
# quotient is some ulp off where it is a product with a reciprocal.
ROUNDED = Tolerance(float64=1e-12, float32=1e-6, float16=2**-10, bfloat16=2**-7)
# One function that is approximated. The 16 bit dtypes hide all but a rounding
# to the other side. The float64 of a device may be two float32.
APPROXIMATED = Tolerance(
    float64=1e-11, float32=1e-5, float16=2**-9, bfloat16=2**-7, floor=2**-3)
# Several of these after each other, sums in any order among them: of numbers
# around one, whose differences are off as they are.
COMPOUND = Tolerance(
    float64=1e-11, float32=2e-5, float16=2**-8, bfloat16=2**-6, floor=1.0)
# The same of ratios of a whole, none of which is the difference of larger ones.
PROPORTION = dataclasses.replace(COMPOUND, bfloat16=2**-5, floor=2**-6)


def compare(expected: torch.Tensor, actual: torch.Tensor,
            tolerance: Tolerance) -> float:
  """Compares two tensors on the CPU: dtype, shape, NaN, infinities, numbers.

  A number that is too small to be normal counts as zero, since devices may
  flush it, but where `tolerance` tells 0.0 from -0.0.

  Returns:
    The largest difference, relative to what it was measured against.

  Raises:
    Failure: they differ by more than `tolerance` allows.
  """
  check_type(expected, actual)
  if not expected.dtype.is_floating_point:
    _refuse(actual != expected, expected, actual, 'allowed none')
    return 0.0
  return _compare_floats(expected, actual, tolerance)


def check_type(expected: torch.Tensor, actual: torch.Tensor) -> None:
  """Compares dtypes and shapes of tensors, wherever they are.

  Raises:
    Failure: they differ.
  """
  if actual.dtype != expected.dtype:
    raise Failure(f'dtype {dtype_name(actual.dtype)}, expected '
                  f'{dtype_name(expected.dtype)}')
  if actual.shape != expected.shape:
    raise Failure(
        f'shape {list(actual.shape)}, expected {list(expected.shape)}')


@dataclasses.dataclass(frozen=True)
class Shard:
  """The part of a tensor on a device.

  Attributes:
    index: which part of the tensor that is; `...` for all of it.
    data: on the CPU, without padding.
  """
  device: str
  index: Any
  data: torch.Tensor


def compare_shards(expected: torch.Tensor, shards: Iterable[Shard],
                   tolerance: Tolerance) -> float:
  """Compares what each device holds with its part of what is expected.

  Returns:
    As `compare`.

  Raises:
    Failure: as `compare`, with the device and the place in the whole tensor;
      or no device holds some element.
  """
  largest = 0.0
  missing = torch.ones(expected.shape, dtype=torch.bool)
  for shard in shards:
    seen = expected.to(shard.data.dtype, copy=True)
    seen[shard.index] = shard.data
    missing[shard.index] = False
    try:
      largest = max(largest, compare(expected, seen, tolerance))
    except Failure as mismatch:
      raise Failure(f'device {shard.device}: {mismatch}') from mismatch
  if missing.any():
    raise Failure(f'{int(missing.sum())} of {missing.numel()} elements are '
                  'held by no device')
  return largest


def _compare_floats(expected: torch.Tensor, actual: torch.Tensor,
                    tolerance: Tolerance) -> float:
  dtype = expected.dtype
  reference, got = expected.double(), actual.double()
  not_numbers = reference.isnan()
  _refuse(not_numbers != got.isnan(), expected, actual, 'NaN must be the same')
  infinite = reference.isinf() | got.isinf()
  _refuse(infinite & (reference != got), expected, actual,
          'infinities must be the same')
  finite = ~(not_numbers | infinite)
  if tolerance.signed_zeros:
    _refuse(finite & (reference == 0) & (reference.signbit() != got.signbit()),
            expected, actual, '0.0 and -0.0 are not the same here')
    smallest = 0.0
  else:
    smallest = torch.finfo(dtype).smallest_normal
  error = torch.where(finite, (got - reference).abs(), 0.0)
  error = torch.where(error < smallest, 0.0, error)
  scale = reference.abs().clamp(min=tolerance.floor)
  wrong = finite & (error > tolerance.ratio(dtype) * scale)
  _refuse(wrong, expected, actual, tolerance.text(dtype))
  relative = torch.where(finite & (error > 0), error / scale, 0.0)
  return float(relative.max()) if relative.numel() else 0.0


def _refuse(wrong: torch.Tensor, expected: torch.Tensor, actual: torch.Tensor,
            rule: str) -> None:
  """Raises a Failure with the worst of the wrong elements, if any are."""
  if not bool(wrong.any()):
    return
  error = (actual.double() - expected.double()).abs().nan_to_num(
      nan=torch.inf, posinf=torch.inf)
  worst = int(torch.where(wrong, error, -1.0).argmax())
  place = [
      int(i) for i in torch.unravel_index(torch.tensor(worst), wrong.shape)
  ]
  got, wanted = (t.flatten()[worst].item() for t in (actual, expected))
  differs = ''
  if expected.dtype.is_floating_point:
    differs = f', differs by {error.flatten()[worst].item():.2g}'
  raise Failure(f'{got!r} at {place}, expected {wanted!r}{differs}; {rule}; '
                f'{int(wrong.sum())} of {wrong.numel()} elements wrong')
