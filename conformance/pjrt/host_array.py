"""Arrays on the host, in each of PJRT's types that torch has too."""

from __future__ import annotations

from collections.abc import Sequence
import dataclasses
import math
import random

import numpy as np

# PJRT_Buffer_Type of API 0.81: (number, bits of an element).
TYPES = {
    'PRED': (1, 8),
    'S8': (2, 8),
    'S16': (3, 16),
    'S32': (4, 32),
    'S64': (5, 64),
    'U8': (6, 8),
    'U16': (7, 16),
    'U32': (8, 32),
    'U64': (9, 64),
    'F16': (10, 16),
    'F32': (11, 32),
    'F64': (12, 64),
    'BF16': (13, 16),
    'C64': (14, 64),
    'C128': (15, 128),
    'F8E5M2': (16, 8),
    'F8E4M3FN': (17, 8),
}

# Bits of the exponent and of the fraction in each floating-point format.
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


@dataclasses.dataclass(frozen=True)
class HostArray:
  """Elements in row-major order, little-endian."""
  type_name: str
  dims: tuple[int, ...]
  data: bytes

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
