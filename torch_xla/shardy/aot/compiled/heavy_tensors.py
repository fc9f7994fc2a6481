"""The arguments and results of a compiled program that take most memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .buffers import buffers_of
from .compiled_module import CompiledModule
from ..report import HeavyTensor
from ...operation_names import origin_of


def heavy_tensors(module: CompiledModule,
                  names: Mapping[int, str] = {},
                  most: int = 8) -> tuple[HeavyTensor, ...]:
  """The heaviest tensors of a program on one device, the heaviest first.

  Arguments and results are exact: their sums are what the compiler tells of
  them, but for the table of addresses that it adds to several results. Results
  in the memory of an argument are left out. They go by their number, with the
  operation that they come from and its module.

  Args:
    names: the users' names of arguments, by number.
    most: how many to list.
  """
  tensors = [*_arguments(module, names), *_results(module)]
  tensors.sort(key=lambda t: (-t.nbytes, t.role, t.name))
  return tuple(tensors[:most])


def _arguments(module: CompiledModule,
               names: Mapping[int, str]) -> Iterator[HeavyTensor]:
  parameters = sorted(
      (i for i in module.entry.instructions if i.opcode == 'parameter'),
      key=lambda i: i.parameter_number)
  buffers = [b for p in parameters for b in buffers_of(p.shape)]
  for number, buffer in enumerate(buffers):
    yield HeavyTensor(
        names.get(number, f'parameter {number}'), 'argument', buffer.shape,
        buffer.nbytes)


def _results(module: CompiledModule) -> Iterator[HeavyTensor]:
  by_id = {i.id: i for i in module.entry.instructions}
  root = by_id[module.entry.root_id]
  aliased = {
      tuple(entry.output_shape_index)
      for entry in module.message.input_output_alias.entries
  }
  for number, buffer in enumerate(buffers_of(root.shape)):
    if buffer.index not in aliased:
      source = by_id[root.operand_ids[buffer.index[0]]] if (
          root.opcode == 'tuple') else root
      origin = origin_of(source.metadata.op_name)
      yield HeavyTensor(f'result {number}' + (f' ({origin})' if origin else ''),
                        'result', buffer.shape, buffer.nbytes)
