"""Arrays on the host, in each of PJRT's types that torch has too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
import dataclasses
import math
import random
import re

import numpy as np
from numpy.typing import ArrayLike

# PJRT_Buffer_Type of API 0.81, by name: (number, bits of an element).
TYPES = {
    name: (number, int((re.findall(r'\d+', name) or [8])[0]))
    for number, name in enumerate((
        'PRED S8 S16 S32 S64 U8 U16 U32 U64 F16 F32 F64 BF16 C64 C128 F8E5M2 '
        'F8E4M3FN').split(), 1)
}

# Bits of the exponent and of the fraction in each floating-point format.
_BYTES = {'F8E5M2': (5, 2), 'F8E4M3FN': (4, 3)}
_FLOATS = {'F16': (5, 10), 'BF16': (8, 7), 'F32': (8, 23), 'F64': (11, 52)}


def special_values(type_name: str) -> bytes:
  """-0, both infinities, NaNs with payloads, the least and largest denormal.

  Empty for other types than IEEE's.
  """
  if type_name not in _FLOATS:
    return b''
  exponent, fraction = _FLOATS[type_name]
  sign = 1 << exponent + fraction
  infinity = (1 << exponent) - 1 << fraction
  quiet = 1 << fraction - 1
  values = (sign, infinity, sign | infinity, infinity | quiet | 1,
            sign | infinity | quiet | 3, 1, sign | 1, (1 << fraction) - 1)
  size = TYPES[type_name][1] // 8
  return b''.join(value.to_bytes(size, 'little') for value in values)


def _dtype(type_name: str) -> str:
  """Numpy's name of a type of numbers that it has: '<i4' for 'S32'."""
  kind = {'P': 'u', 'S': 'i'}.get(type_name[0], type_name[0].lower())
  return f'<{kind}{TYPES[type_name][1] // 8}'


@dataclasses.dataclass(frozen=True)
class HostArray:
  """Elements in row-major order, little-endian."""
  type_name: str
  dims: tuple[int, ...]
  data: bytes

  @classmethod
  def from_numbers(cls, type_name: str, numbers: ArrayLike) -> HostArray:
    """Numbers as elements of a type, which has them exactly."""
    if type_name == 'BF16':  # The upper halves, as the lower ones are zero.
      values = np.asarray(numbers, '<f4', 'C')
      return cls(type_name, values.shape,
                 values.view('<u2')[..., 1::2].tobytes())
    if type_name in _BYTES:  # Numbers that are normal in it.
      exponent, fraction = _BYTES[type_name]
      bits = np.asarray(numbers, '<f4', 'C').view('<u4')
      bias = 127 - ((1 << exponent - 1) - 1) << fraction
      data = (bits >> 24 & 128) + ((bits & 0x7fffffff) >> 23 - fraction) - bias
      return cls(type_name, data.shape, data.astype('u1').tobytes())
    values = np.asarray(numbers, _dtype(type_name))
    return cls(type_name, values.shape, values.tobytes())

  def numbers(self) -> np.ndarray:
    """The elements; of bfloat16 as float32."""
    if self.type_name == 'BF16':
      halves = np.frombuffer(self.data, '<u2').astype('<u4')
      return (halves << 16).view('<f4').reshape(self.dims)
    return np.frombuffer(self.data, _dtype(self.type_name)).reshape(self.dims)

  @property
  def type_number(self) -> int:
    return TYPES[self.type_name][0]

  @staticmethod
  def size_of(type_name: str, dims: Sequence[int]) -> int:
    """The size of an array in bytes."""
    return math.prod(dims) * TYPES[type_name][1] // 8

  @classmethod
  def random_bits(cls, type_name: str, dims: Sequence[int],
                  seed: int) -> HostArray:
    """Elements with all bits in use; where there is room, special ones first.

    Booleans are zeros and ones.
    """
    size = cls.size_of(type_name, dims)
    data = random.Random(f'{type_name} {list(dims)} {seed}').randbytes(size)
    if type_name == 'PRED':
      data = bytes(byte & 1 for byte in data)
    special = special_values(type_name)
    if len(special) <= size:
      data = special + data[len(special):]
    return cls(type_name, tuple(dims), data)

  def first_difference(self, other: HostArray) -> str:
    """The first place where another array differs; empty if nowhere."""
    if (self.type_name, self.dims) != (other.type_name, other.dims):
      return (f'{other.type_name}{list(other.dims)} in place of '
              f'{self.type_name}{list(self.dims)}')
    if self.data == other.data:
      return ''
    wrong = (
        np.frombuffer(self.data, np.uint8)
        != np.frombuffer(other.data, np.uint8))
    size = TYPES[self.type_name][1] // 8
    at = int(wrong.argmax()) // size * size
    mine, others = (d[at:at + size].hex() for d in (self.data, other.data))
    return (f'{wrong.sum()} of {len(self.data)} bytes differ, first in element '
            f'{at // size}: {others} in place of {mine}')


def floats(values: Iterable[float]) -> HostArray:
  """An array of float32 of rank 1."""
  return HostArray.from_numbers('F32', list(values))
