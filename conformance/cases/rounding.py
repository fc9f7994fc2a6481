"""Casts and arithmetic of floats: rounded to the nearest, ties to even.

Tolerances of other cases hide a number that is cut off in place of rounded.
"""

from __future__ import annotations

from collections.abc import Callable
import dataclasses

import numpy as np

from ..case import Case, Tier
from ..context import Context
from ..pjrt.client import Client
from ..pjrt.graph import Array, Graph, Step
from ..pjrt.host_array import HostArray
from .checks import check_array

# Less than a vector, no multiple of one, whole pages, a size between each two
# powers of two, and beyond 64 MiB of float32.
_SMALL = (1, 13, 1027, 1 << 12, (1 << 13) + 1, 3 << 13, (3 << 14) + 5,
          (1 << 16) + 5, 1 << 17, (1 << 18) + 1, (1 << 20) - 3)
_LARGE = (1 << 24) + 13
_TYPES = {
    'f16': np.dtype('<f2'),
    'f32': np.dtype('<f4'),
    'f64': np.dtype('<f8'),
    'c64': np.dtype('<c8'),
    's8': np.dtype('i1'),
    's16': np.dtype('<i2'),
    's32': np.dtype('<i4'),
    's64': np.dtype('<i8'),
    'u8': np.dtype('u1'),
    'u16': np.dtype('<u2'),
}
# Bits of the fraction; numpy does not have all types.
_FRACTIONS = {'bf16': 7, 'f16': 10, 'f32': 23, 'f8e5m2': 2, 'f8e4m3fn': 3}
_CALLS: dict[str, Callable[..., np.ndarray]] = {
    'add': np.add,
    'subtract': np.subtract,
    'multiply': np.multiply,
    'divide': np.divide
}


@dataclasses.dataclass(frozen=True)
class _Operation:
  """An operation that IEEE 754 rounds correctly.

  Attributes:
    source, target: the types of its operands and of its result.
  """
  opcode: str
  source: str
  target: str

  @property
  def name(self) -> str:
    if self.opcode == 'convert':
      return f'{self.source}_to_{self.target}'
    return f'{self.opcode}_{self.target}'

  @property
  def operands(self) -> int:
    return 1 if self.opcode == 'convert' else 2

  def expected(self, *operands: np.ndarray) -> np.ndarray:
    """The result, rounded once: float32 has room for what two bfloat16 give."""
    wide = operands[0] if self.operands == 1 else _CALLS[self.opcode](*operands)
    return _rounded_to(self.target, wide)


_OPERATIONS = {
    operation.name: operation for operation in (
        _Operation('convert', 'f32', 'bf16'),
        _Operation('convert', 'f32', 'f16'),
        _Operation('convert', 'f64', 'f32'),
        _Operation('convert', 's32', 'f32'),
        _Operation('convert', 'f32', 'f8e5m2'),
        _Operation('convert', 'f32', 'f8e4m3fn'),
        _Operation('multiply', 'c64', 'c64'),
        *(_Operation(opcode, name, name)
          for opcode in _CALLS
          for name in ('bf16', 'f16', 'f32')),
    )
}
# Beyond 2^24 elements, every night the others too.
_LARGE_NOW = ('f32_to_bf16', 'f32_to_f16', 'add_bf16')
_BYTES = {
    operation.name: operation for operation in (
        *(_Operation('convert', source, target)
          for source in ('u8', 's8')
          for target in ('f32', 'bf16', 'f16', 's16', 'u16', 's32', 's64')),
        *(_Operation('convert', source, 'u8')
          for source in ('f32', 'bf16', 'f16', 's16', 's32', 's64')),
        _Operation('convert', 'u16', 'f32'),
        _Operation('convert', 'u16', 's32'),
    )
}


def _rounded_to(name: str, values: np.ndarray) -> np.ndarray:
  """Values in a type; as float32 with fewer bits where numpy lacks the type."""
  if name in _TYPES:
    return values.astype(_TYPES[name])
  bits = values.astype('<f4').view('<u4')
  lost = np.uint32(_FRACTIONS['f32'] - _FRACTIONS[name])
  half = np.uint32((1 << lost - 1) - 1)
  return (bits + half + (bits >> lost & 1) >> lost << lost).view('<f4')


def _numbers(operation: _Operation, count: int, seed: int) -> np.ndarray:
  """Numbers around one of both signs; of a cast, each third is a tie.

  Of the ties, half go up to the even number, and half down. What a number is
  divided by is a power of two, as not every device divides to the last bit; the
  parts of a complex number are whole.
  """
  values = np.random.default_rng(seed).random(count) * 3 + 0.5
  values[::2] *= -1
  if operation.source == 's32':
    return 2 * np.arange(count) + (1 << 24) + 1
  if operation.source == 'c64':
    return np.rint(9 * (values + 1j * values[::-1]))
  if operation.opcode == 'divide' and seed:
    values = np.exp2(np.rint(values))
  if operation.opcode != 'convert':
    return _rounded_to(operation.source, values)
  # In [1, 2) numbers of the target lie `spacing` apart.
  spacing = 2.**-_FRACTIONS[operation.target]
  ties = np.arange(len(values[::3])) % (round(1 / spacing) - 1)
  values = values.astype(_TYPES[operation.source])
  values[::3] = 1 + (ties + 0.5) * spacing
  return values


def _check(client: Client, operation: _Operation, given: list[np.ndarray],
           label: str) -> None:
  dims = given[0].shape
  operands = tuple(range(operation.operands))
  loaded = client.compile(
      Graph((Array(operation.source, dims),) * operation.operands,
            (Step(operation.opcode, Array(operation.target, dims), operands),),
            (operation.operands,)))
  buffers = [
      client.put(HostArray.from_numbers(operation.source.upper(), values))
      for values in given
  ]
  (result,), = loaded.execute([buffers])
  type_name = operation.target.upper()
  check_array(result,
              HostArray.from_numbers(type_name, operation.expected(*given)),
              f'{label} {type_name}')


def _rounded(context: Context, part: str) -> str:
  name, _, size = part.partition('.')
  counts = (_LARGE,) if size else _SMALL
  operation = _OPERATIONS[name]
  for count in counts:
    given = [_numbers(operation, count, s) for s in range(operation.operands)]
    _check(context.kept_client(), operation, given,
           f'{count} elements are not rounded to the nearest')
  return f'{", ".join(f"{count:,}" for count in counts)} elements'


def _bytes(context: Context, part: str) -> str:
  """Every number of a byte, as another type and back.

  Wider integers lose their upper bits.
  """
  operation = _BYTES[part]
  numbers = np.arange(256) - (128 if operation.source == 's8' else 0)
  if operation.source in ('s16', 's32', 's64', 'u16'):
    numbers = np.arange(256) * 257 - (0
                                      if operation.source == 'u16' else 1 << 15)
  _check(context.kept_client(), operation,
         [_rounded_to(operation.source, numbers)],
         '256 numbers of a byte change as they become')
  return '256 numbers'


CASES: tuple[Case, ...] = (
    Case(
        'rounding.nearest',
        'numbers drift: they are cut off in place of rounded',
        _rounded,
        tuple(
            f'{name}{size}' for name in _OPERATIONS for size in ('', '.large')),
        part_tiers={
            f'{name}.large': Tier.WHOLE if name in _LARGE_NOW else Tier.NIGHTLY
            for name in _OPERATIONS
        },
        seconds=120),
    Case('rounding.bytes', 'images and masks change as they are cast', _bytes,
         tuple(_BYTES)),
)
