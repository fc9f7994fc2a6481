"""The users' names of a program's parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional

import torch

from ...compile.record import ProgramRecord
from ...hlo import array_shape
from ...hlo.array_shape import ArrayShape

# As XLA calls the types of torch's tensors.
_DTYPES = {
    torch.bool: 'pred',
    torch.int8: 's8',
    torch.int16: 's16',
    torch.int32: 's32',
    torch.int64: 's64',
    torch.uint8: 'u8',
    torch.float16: 'f16',
    torch.bfloat16: 'bf16',
    torch.float32: 'f32',
    torch.float64: 'f64',
    torch.complex64: 'c64',
}
# A type and global dimensions.
_Look = tuple[str, tuple[int, ...]]


def parameters_of(module: Any) -> list[ArrayShape]:
  """The parameters of a program, an HloModuleProto, before it was split."""
  for computation in module.computations:
    if computation.id == module.entry_computation_id:
      return [
          array for shape in computation.program_shape.parameters
          for array in array_shape.arrays_of(shape)
      ]
  return []


def known_names(record: Optional[ProgramRecord]) -> dict[int, str]:
  """Names by the parameter's number, as mode shardy knows them."""
  return {
      tensor.parameter: tensor.name
      for tensor in (record.tensors if record else ())
      if tensor.parameter is not None and tensor.name
  }


def alike(parameters: Sequence[ArrayShape],
          tensors: Iterable[tuple[torch.Tensor, str]],
          known: Mapping[int, str]) -> dict[int, str]:
  """Names of those `parameters` that some of `tensors` look like.

  A program does not say which tensor a parameter is. Where one living tensor
  alone looks like it, that is it; where several do, they are named together.

  Args:
    known: names by the parameter's number, of those that are sure.
  """
  used = set(known.values())
  by_look: dict[_Look, list[str]] = {}
  for tensor, name in tensors:
    try:
      look = _DTYPES.get(tensor.dtype, ''), tuple(tensor.shape)
    except RuntimeError:  # What was refused is never there, and has no shape.
      continue
    names = by_look.setdefault(look, [])
    if name not in used and name not in names:
      names.append(name)
  named = {}
  for number, parameter in enumerate(parameters):
    names = by_look.get((parameter.dtype, parameter.dims), [])
    # What looks like a scalar or a short vector may be anything.
    if number in known or not names or not parameter.dims:
      continue
    named[number] = (
        names[0] if len(names) == 1 else f'one of {len(names)} like {names[0]}')
  return named
