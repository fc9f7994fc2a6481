"""The tolerance of a device's numbers against torch's on the CPU."""

from __future__ import annotations

import dataclasses

import torch


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
