"""Shapes of arrays in XLA's protos: element type, dimensions, bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
import dataclasses
import functools
import math
import re
from typing import Optional

from . import messages
from .protos import ShapeProto

_TUPLE = 13
# The names of xla.PrimitiveType in the order of its numbers, from xla_data.proto.
# Types without a name have no elements in memory, or are newer than this.
_NAMES = ('', 'pred', 's8', 's16', 's32', 's64', 'u8', 'u16', 'u32', 'u64',
          'f16', 'f32', 'f64', '', '', 'c64', 'bf16', '', 'c128', 'f8e5m2',
          'f8e4m3fn', 's4', 'u4', 'f8e4m3b11fnuz', 'f8e5m2fnuz', 'f8e4m3fnuz',
          's2', 'u2', 'f8e4m3', 'f8e3m4', '', '', 'f4e2m1fn', 'f8e8m0fnu')
_TYPES = {number: name for number, name in enumerate(_NAMES) if name}
# Per element; the first number in a name.
_BITS = {
    'pred': 8
} | {
    name: int(found[0]) for name in _NAMES if (found := re.search(r'\d+', name))
}


@dataclasses.dataclass(frozen=True)
class ArrayShape:
  """An array's element type, by XLA's name, and its dimensions."""
  dtype: str
  dims: tuple[int, ...]
  bits: int

  @property
  def nbytes(self) -> int:
    return -(-math.prod(self.dims) * self.bits // 8)

  def __str__(self) -> str:
    return f'{self.dtype}[{",".join(map(str, self.dims))}]'


# As MLIR writes the types that XLA calls otherwise.
_MLIR_NAMES = {
    'i1': 'pred',
    **{
        f'i{n}': f's{n}' for n in (2, 4, 8, 16, 32, 64)
    },
    **{
        f'ui{n}': f'u{n}' for n in (2, 4, 8, 16, 32, 64)
    },
    'complex<f32>': 'c64',
    'complex<f64>': 'c128',
}


def from_mlir(element_type: str, dims: Iterable[int]) -> ArrayShape:
  """The array that MLIR calls `tensor<2x4xf32>`, from 'f32' and (2, 4)."""
  name = _MLIR_NAMES.get(element_type, element_type.lower())
  return ArrayShape(name, tuple(dims), _BITS.get(name, 0))


@functools.lru_cache(maxsize=4096)
def arrays_of(shape: bytes) -> tuple[ArrayShape, ...]:
  """The arrays in a serialised ShapeProto, tuples flattened.

  Raises:
    ValueError: `shape` is damaged.
  """
  return tuple(_arrays(messages.parse(ShapeProto, shape)))


def array_of(shape: bytes) -> Optional[ArrayShape]:
  """The array in a serialised ShapeProto, or None.

  Tuples, tokens and dynamic shapes are none.
  """
  if messages.parse(ShapeProto,
                    shape).element_type not in _TYPES or (is_dynamic(shape)):
    return None
  return arrays_of(shape)[0]


def nbytes_of(shape: bytes) -> int:
  """The bytes of all arrays in a serialised ShapeProto, without padding."""
  return sum(array.nbytes for array in arrays_of(shape))


@functools.lru_cache(maxsize=4096)
def is_tuple(shape: bytes) -> bool:
  return messages.parse(ShapeProto, shape).element_type == _TUPLE


@functools.lru_cache(maxsize=4096)
def is_dynamic(shape: bytes) -> bool:
  """Tests whether only a bound of a dimension is known."""
  return any(messages.parse(ShapeProto, shape).is_dynamic_dimension)


@functools.lru_cache(maxsize=4096)
def with_dims(shape: bytes, dims: tuple[int, ...]) -> bytes:
  """A serialised ShapeProto of an array with other dimensions, static ones.

  The layout is row-major where the rank is another; otherwise it is kept.
  """
  message = messages.parse(ShapeProto, shape)
  if len(message.dimensions) != len(dims):
    message.layout.minor_to_major[:] = reversed(range(len(dims)))
  message.dimensions[:] = dims
  message.is_dynamic_dimension[:] = [False] * len(dims)
  return message.SerializeToString()


def with_type(shape: bytes, dtype: str) -> bytes:
  """A serialised ShapeProto of an array of another element type, by name."""
  message = messages.parse(ShapeProto, shape)
  message.element_type = _NAMES.index(dtype)
  return message.SerializeToString()


def tuple_of(shapes: Iterable[bytes]) -> bytes:
  """The serialised ShapeProto of a tuple of these."""
  message = messages.make(ShapeProto, element_type=_TUPLE)
  for shape in shapes:
    message.tuple_shapes.add().MergeFromString(shape)
  return message.SerializeToString()


def elements_of(shape: bytes) -> list[bytes]:
  """The serialised ShapeProtos of a tuple's elements."""
  message = messages.parse(ShapeProto, shape)
  return [element.SerializeToString() for element in message.tuple_shapes]


def _arrays(shape: ShapeProto) -> Iterator[ArrayShape]:
  if shape.element_type == _TUPLE:
    for element in shape.tuple_shapes:
      yield from _arrays(element)
  else:
    name = _TYPES.get(shape.element_type, f'type{shape.element_type}')
    yield ArrayShape(name, tuple(shape.dimensions), _BITS.get(name, 0))
