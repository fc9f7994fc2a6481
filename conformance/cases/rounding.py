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

# Less than a vector, no multiple of one, some threads' shares, and beyond 64 MiB
# of float32.
_SMALL = (1, 5, 13, 31, 1027, 4099, (1 << 13) + 1, (1 << 16) + 5, (1 << 20) - 3)
_LARGE = (1 << 24) + 13
_TYPES = {
    'f16': np.dtype('<f2'),
    'f32': np.dtype('<f4'),
    'f64': np.dtype('<f8'),
    's8': np.dtype('i1'),
    's32': np.dtype('<i4'),
    's64': np.dtype('<i8'),
    'u8': np.dtype('u1'),
}
# Bits of the fraction.
_FRACTIONS = {'bf16': 7, 'f16': 10, 'f32': 23}
_CALLS: dict[str, Callable[..., np.ndarray]] = {
    'add': np.add,
    'subtract': np.subtract,
    'multiply': np.multiply
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
          for target in ('f32', 'bf16', 'f16', 's32', 's64')),
        _Operation('convert', 'f32', 'u8'),
        _Operation('convert', 's32', 'u8'),
    )
}


def _rounded_to(name: str, values: np.ndarray) -> np.ndarray:
  """Values in a type; of bfloat16 as float32, whose lower halves are zero."""
  if name != 'bf16':
    return values.astype(_TYPES[name])
  bits = values.astype('<f4').view('<u4')
  bits = bits + 0x7fff + (bits >> 16 & 1) & np.uint32(0xffff0000)
  return bits.view('<f4')


def _numbers(operation: _Operation, count: int, seed: int) -> np.ndarray:
  """Numbers around one of both signs; of a cast, each third is a tie.

  Of the ties, half go up to the even number, and half down.
  """
  values = np.random.default_rng(seed).random(count) * 3 + 0.5
  values[::2] *= -1
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
  """Every number of a byte, as another type and back."""
  operation = _BYTES[part]
  numbers = np.arange(256) - (128 if operation.source == 's8' else 0)
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
