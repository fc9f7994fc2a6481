"""Casts and sums of floats: rounded to the nearest, ties to even.

Tolerances of other cases hide a number that is cut off in place of rounded.
"""

from __future__ import annotations

import dataclasses

from ..case import Case, expect, Needs
from ..context import Context
from ..pjrt.client import Client
from ..pjrt.graph import Array, Graph, Step
from ..pjrt.host_array import HostArray
from ..pjrt.numbers import destroy
from ..torch_modules import torch

# Less than a vector, no multiple of one, and beyond 64 MiB of float32.
_SMALL = (1, 5, 13, 31, 1027, 4099)
_LARGE = (1 << 24) + 13
_TYPES = {
    'bf16': 'bfloat16',
    'f16': 'float16',
    'f32': 'float32',
    'f64': 'float64'
}
# What torch calls them.
_CALLS = {'add': 'add', 'subtract': 'sub', 'multiply': 'mul'}


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

  def expected(self, *operands: torch.Tensor) -> torch.Tensor:
    """The result of torch."""
    if self.opcode == 'convert':
      return operands[0].to(_dtype(self.target))
    return getattr(torch, _CALLS[self.opcode])(*operands)


_OPERATIONS = {
    operation.name: operation for operation in (
        _Operation('convert', 'f32', 'bf16'),
        _Operation('convert', 'f32', 'f16'),
        _Operation('convert', 'f64', 'f32'),
        *(_Operation(opcode, name, name)
          for opcode in _CALLS
          for name in ('bf16', 'f16')),
    )
}


def _dtype(name: str) -> torch.dtype:
  return getattr(torch, _TYPES[name])


def _numbers(operation: _Operation, count: int, seed: int) -> torch.Tensor:
  """Numbers around one of both signs; of a cast, each third is a tie.

  Of the ties, half go up to the even number, and half down.
  """
  generator = torch.Generator().manual_seed(seed)
  numbers = torch.rand(count, generator=generator) * 3 + 0.5
  numbers[::2] *= -1
  if operation.opcode != 'convert':
    return numbers.to(_dtype(operation.source))
  wide = numbers.to(_dtype(operation.source))
  spacing = torch.finfo(_dtype(operation.target)).eps
  # In [1, 2) numbers of the target lie `spacing` apart.
  ties = torch.arange(len(wide[::3])) % (round(1 / spacing) - 1)
  wide[::3] = 1 + (ties.to(_dtype(operation.source)) + 0.5) * spacing
  return wide


def _array(name: str, tensor: torch.Tensor) -> HostArray:
  return HostArray(name.upper(), tuple(tensor.shape),
                   tensor.view(torch.uint8).numpy().tobytes())


def _check(client: Client, form: str, operation: _Operation,
           count: int) -> None:
  source = Array(operation.source, (count,))
  target = Array(operation.target, (count,))
  operands = tuple(range(operation.operands))
  graph = Graph((source,) * operation.operands,
                (Step(operation.opcode, target, operands),),
                (operation.operands,))
  given = [_numbers(operation, count, seed) for seed in operands]
  loaded = client.compile(graph.program(form, client.ids[:1]))
  buffers = [client.put(_array(operation.source, tensor)) for tensor in given]
  (result,), = loaded.execute([buffers])
  expected = _array(operation.target, operation.expected(*given))
  actual = result.read(expected.type_name, expected.dims)
  destroy((*buffers, result))
  loaded.destroy()
  difference = expected.first_difference(actual)
  expect(
      not difference, f'{count} elements are not rounded to the nearest '
      f'{expected.type_name}: {difference}')


def _rounded(context: Context, part: str) -> str:
  name, _, size = part.partition('.')
  counts = (_LARGE,) if size else _SMALL
  for count in counts:
    _check(context.kept_client(), context.format, _OPERATIONS[name], count)
  return f'{", ".join(f"{count:,}" for count in counts)} elements'


CASES: tuple[Case, ...] = (Case(
    'rounding.nearest',
    'numbers of 16 bits drift: they are cut off in place of rounded',
    _rounded,
    tuple(f'{name}{size}' for name in _OPERATIONS for size in ('', '.large')),
    seconds=120,
    needs=Needs.TORCH_XLA),)
