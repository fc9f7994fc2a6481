"""Casts and sums of floats: rounded to the nearest, ties to even.

Tolerances of other cases hide a number that is cut off in place of rounded.
"""

from __future__ import annotations

from collections.abc import Callable
import dataclasses

import torch

from ..case import Case, expect
from ..context import Context
from ..pjrt.client import Client
from ..pjrt.graph import Array, Graph, Step
from ..pjrt.host_array import HostArray
from ..pjrt.numbers import destroy

# Less than a vector, no multiple of one, and beyond 64 MiB of float32.
_SMALL = (1, 5, 13, 31, 1027, 4099)
_LARGE = (1 << 24) + 13
_NAMES = {
    torch.bfloat16: 'bf16',
    torch.float16: 'f16',
    torch.float32: 'f32',
    torch.float64: 'f64'
}


@dataclasses.dataclass(frozen=True)
class _Operation:
  """An operation that IEEE 754 rounds correctly.

  Attributes:
    call: what torch does.
    source, target: the types of its operands and of its result.
    operands: how many.
  """
  opcode: str
  call: Callable[..., torch.Tensor]
  source: torch.dtype
  target: torch.dtype
  operands: int


def _cast(source: torch.dtype, target: torch.dtype) -> _Operation:
  return _Operation('convert', lambda x: x.to(target), source, target, 1)


def _exact(opcode: str, call: Callable[..., torch.Tensor],
           dtype: torch.dtype) -> _Operation:
  return _Operation(opcode, call, dtype, dtype, 2)


def _name(operation: _Operation) -> str:
  target = _NAMES[operation.target]
  if operation.opcode == 'convert':
    return f'{_NAMES[operation.source]}_to_{target}'
  return f'{operation.opcode}_{target}'


_OPERATIONS = {
    _name(operation): operation for operation in (
        _cast(torch.float32, torch.bfloat16),
        _cast(torch.float32, torch.float16),
        _cast(torch.float64, torch.float32),
        *(_exact(opcode, call, dtype)
          for opcode, call in (('add', torch.add), ('subtract', torch.sub),
                               ('multiply', torch.mul))
          for dtype in (torch.bfloat16, torch.float16)),
    )
}


def _numbers(operation: _Operation, count: int, seed: int) -> torch.Tensor:
  """Numbers around one of both signs; of a cast, each third is a tie.

  Of the ties, half go up to the even number, and half down.
  """
  generator = torch.Generator().manual_seed(seed)
  numbers = torch.rand(count, generator=generator) * 3 + 0.5
  numbers[::2] *= -1
  if operation.opcode != 'convert':
    return numbers.to(operation.source)
  wide = numbers.to(operation.source)
  spacing = torch.finfo(operation.target).eps
  # In [1, 2) numbers of the target lie `spacing` apart.
  ties = torch.arange(len(wide[::3])) % (round(1 / spacing) - 1)
  wide[::3] = 1 + (ties.to(operation.source) + 0.5) * spacing
  return wide


def _array(tensor: torch.Tensor) -> HostArray:
  name = _NAMES[tensor.dtype].upper()
  return HostArray(name, tuple(tensor.shape),
                   tensor.view(torch.uint8).numpy().tobytes())


def _check(client: Client, form: str, operation: _Operation,
           count: int) -> None:
  source = Array(_NAMES[operation.source], (count,))
  target = Array(_NAMES[operation.target], (count,))
  operands = tuple(range(operation.operands))
  graph = Graph((source,) * operation.operands,
                (Step(operation.opcode, target, operands),),
                (operation.operands,))
  given = [_numbers(operation, count, seed) for seed in operands]
  loaded = client.compile(graph.program(form, client.ids[:1]))
  buffers = [client.put(_array(tensor)) for tensor in given]
  (result,), = loaded.execute([buffers])
  expected = _array(operation.call(*given))
  found = result.read(expected.type_name, expected.dims)
  destroy((*buffers, result))
  loaded.destroy()
  difference = expected.first_difference(found)
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
    seconds=120),)
