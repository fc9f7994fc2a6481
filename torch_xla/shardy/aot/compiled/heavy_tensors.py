"""Which tensors of a compiled program take the most memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
import json
from typing import Any

from .buffers import Buffer, buffers_of
from .compiled_module import CompiledModule
from ..report import HeavyTensor
from ...operation_names import origin_of

# They name or view memory of others, or have none.
_NO_MEMORY = frozenset(
    ('add-dependency', 'after-all', 'bitcast', 'call', 'conditional',
     'constant', 'domain', 'dynamic-update-slice', 'get-tuple-element',
     'opt-barrier', 'parameter', 'send', 'tuple', 'while'))
# Of the tuple that a start gives, what is new: the rest are its operands.
_NEW_OF_START = {
    'all-gather-start': 1,
    'async-start': 1,
    'collective-permute-start': 1,
    'copy-start': 0,
    'recv': 0,
}
# The array that they give is the one that they take.
_SAME = ('add-dependency', 'bitcast', 'dynamic-update-slice')


def heavy_tensors(module: CompiledModule,
                  names: Mapping[int, str] = {},
                  most: int = 8) -> tuple[HeavyTensor, ...]:
  """The heaviest tensors of a program on one device, the heaviest first.

  Arguments and results are exact: their sums are what the compiler tells of
  them, but for the table of addresses that it adds to several results. Results
  in the memory of an argument are left out.

  Temporaries are what the program's and its loops' instructions make in the
  device's large memory, and keep to themselves. That is a guess at what the
  compiler placed: two that do not live at once may share memory, and what
  fusions need inside is not seen. Of what a loop carries, the value before
  the first trip is listed. They go by the compiler's names, with the operation
  that they come from and its module, as results do by their number.

  Args:
    names: the users' names of arguments, by number.
    most: how many to list.
  """
  tensors = [
      *_arguments(module, names), *_results(module), *_temporaries(module)
  ]
  tensors.sort(key=lambda t: (-t.nbytes, t.role, t.name))
  return tuple(tensors[:most])


def _arguments(module: CompiledModule,
               names: Mapping[int, str]) -> Iterator[HeavyTensor]:
  parameters = sorted(
      (i for i in module.entry.instructions if i.opcode == 'parameter'),
      key=lambda i: i.parameter_number)
  buffers = [b for p in parameters for b in buffers_of(p.shape)]
  for number, buffer in enumerate(buffers):
    name = names.get(number, f'parameter {number}')
    yield _tensor(name, 'argument', buffer)


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
      yield _tensor(_with_origin(f'result {number}', source), 'result', buffer)


def _temporaries(module: CompiledModule) -> Iterator[HeavyTensor]:
  aside = _aside(module)
  for computation, _ in module.run():
    if computation.id in aside:
      continue
    by_id = {i.id: i for i in computation.instructions}
    given = _given_back(by_id, computation.root_id)
    for instruction in computation.instructions:
      for buffer in _new_buffers(instruction, by_id):
        if buffer.space == 0 and (instruction.id, buffer.index) not in given:
          yield _tensor(
              _with_origin(instruction.name, instruction), 'temporary', buffer)


def _aside(module: CompiledModule) -> set[int]:
  """The computations that run beside the program: of each, its start tells."""
  aside: set[int] = set()
  # A computation stands before those that call it.
  for computation, _ in reversed(list(module.run())):
    for instruction in computation.instructions:
      if instruction.opcode == 'async-start' or computation.id in aside:
        aside.update(instruction.called_computation_ids)
  return aside


def _with_origin(name: str, instruction: Any) -> str:
  origin = origin_of(instruction.metadata.op_name)
  return f'{name} ({origin})' if origin else name


def _tensor(name: str, role: str, buffer: Buffer) -> HeavyTensor:
  return HeavyTensor(name, role, buffer.shape, buffer.nbytes)


def _new_buffers(instruction: Any, by_id: Mapping[int, Any]) -> list[Buffer]:
  """The arrays that an instruction makes in memory of its own."""
  opcode = instruction.opcode
  if opcode in _NO_MEMORY or opcode.endswith('-done'):
    return []
  buffers = buffers_of(instruction.shape)
  if opcode in _NEW_OF_START:
    return [b for b in buffers if b.index[0] == _NEW_OF_START[opcode]]
  shared = _in_place(instruction.backend_config)
  if shared:
    # They are numbered on from the arrays of the operands.
    first = sum(
        len(buffers_of(by_id[i].shape)) for i in instruction.operand_ids)
    return [b for n, b in enumerate(buffers, first) if n not in shared]
  return list(buffers)


def _in_place(backend_config: bytes) -> set[int]:
  """What shares memory with an operand, in libtpu's numbers."""
  if b'"indices"' not in backend_config:
    return set()
  try:
    lists = json.loads(backend_config)['aliasing_operands']['lists']
    return {int(i) for shared in lists for i in shared['indices'][1:]}
  except (ValueError, KeyError, TypeError):
    return set()


def _given_back(by_id: Mapping[int, Any],
                root_id: int) -> set[tuple[int, tuple[int, ...]]]:
  """What of a computation's arrays lie where its caller wants its result."""
  root = by_id[root_id]
  elements = root.operand_ids if root.opcode == 'tuple' else [root_id]
  return {_maker(by_id, element) for element in elements}


def _maker(by_id: Mapping[int, Any],
           instruction_id: int) -> tuple[int, tuple[int, ...]]:
  """The instruction that an array comes from, and which of its arrays it is."""
  instruction = by_id[instruction_id]
  opcode = instruction.opcode
  if opcode in _SAME:
    return _maker(by_id, instruction.operand_ids[0])
  if opcode.endswith('-done'):
    start = by_id[instruction.operand_ids[0]]
    new = _NEW_OF_START.get(start.opcode)
    return start.id, () if new is None else (new,)
  if opcode == 'get-tuple-element':
    index = instruction.tuple_index
    source = by_id[instruction.operand_ids[0]]
    if source.opcode == 'while':
      source = by_id[source.operand_ids[0]]
    if source.opcode == 'tuple':
      return _maker(by_id, source.operand_ids[index])
    return source.id, (index,)
  return instruction_id, ()
