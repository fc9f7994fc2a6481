"""How often a loop runs, where a compiled program tells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
import dataclasses
import json
import math
import operator
from typing import Any, Callable, Optional

from ...hlo import array_shape

# More trips are not counted: each is a few microseconds here.
_MOST_TRIPS = 100_000
# What hands on a number as it is, but for its type.
_COPIES = ('bitcast', 'bitcast-convert', 'convert', 'copy', 'copy-done',
           'copy-start', 'reshape')
_OPERATIONS: Mapping[str, Callable[..., int]] = {
    'add': operator.add,
    'and': operator.and_,
    'clamp': lambda least, x, most: min(max(least, x), most),
    'maximum': max,
    'minimum': min,
    'multiply': operator.mul,
    'negate': operator.neg,
    'not': operator.invert,
    'or': operator.or_,
    'select': lambda which, yes, no: yes if which else no,
    'subtract': operator.sub,
    'xor': operator.xor,
    **{
        copy: lambda x: x for copy in _COPIES
    },
}
_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    name.upper(): getattr(operator, name)
    for name in ('eq', 'ge', 'gt', 'le', 'lt', 'ne')
}


@dataclasses.dataclass(frozen=True)
class _Formula:
  """How numbers follow from elements of a loop's state.

  Attributes:
    constants: what is known, by instruction.
    elements: instructions that are elements of the state, and which.
    steps: in turn: the instruction, its operands, what is done, its type.
    results: the instructions asked for.
  """
  constants: dict[int, int]
  elements: tuple[tuple[int, int], ...]
  steps: tuple[tuple[int, tuple[int, ...], Callable[..., int], str], ...]
  results: tuple[int, ...]

  def values(self, state: Mapping[int, int]) -> list[int]:
    known = dict(self.constants)
    for instruction, element in self.elements:
      known[instruction] = state[element]
    for instruction, operands, operation, dtype in self.steps:
      known[instruction] = _wrapped(
          operation(*[known[i] for i in operands]), dtype)
    return [known[i] for i in self.results]


class TripCounts:
  """Trip counts of the loops of one module.

  XLA writes a trip count that it knows into the loop. libtpu does not; then
  what the condition looks at is followed from trip to trip, as long as it is
  whole numbers that start at constants and depend on nothing else. A constant
  may come from outside, through loops that hand it on.
  """

  def __init__(self, module: Any):
    """Takes an HloModuleProto."""
    self._computations = {c.id: c for c in module.computations}
    # Of computations that were looked into, which few are.
    self._by_id: dict[int, dict[int, Any]] = {}
    self._parents: dict[int, list[tuple[Any, Any]]] = {}
    for computation in module.computations:
      for instruction in computation.instructions:
        if instruction.opcode == 'while':
          for called in instruction.called_computation_ids:
            self._parents.setdefault(called, []).append(
                (computation, instruction))

  def trip_count(self, computation: Any, loop: Any) -> Optional[int]:
    """The trip count of `loop`, a while in `computation`; None if not told."""
    known = _known(loop.backend_config)
    if known is not None:
      return known
    body, condition = (
        self._computations[i] for i in loop.called_computation_ids)
    ends = self._formula(condition, [condition.root_id])
    if ends is None:
      return None
    # What the condition looks at, and what that follows from.
    elements = sorted({element for _, element in ends.elements})
    while True:
      following = self._formula(body, [self._next(body, i) for i in elements])
      if following is None:
        return None
      more = {element for _, element in following.elements} - set(elements)
      if not more:
        break
      elements = sorted({*elements, *more})
    state: dict[int, int] = {}
    for element in elements:
      start = self._element(computation, loop.operand_ids[0], element)
      if start is None:
        return None
      state[element] = start
    trips = 0
    while ends.values(state)[0]:
      trips += 1
      if trips > _MOST_TRIPS:
        return None
      state = dict(zip(elements, following.values(state)))
    return trips

  def _formula(self, computation: Any,
               results: Iterable[int]) -> Optional[_Formula]:
    """How numbers in a body or condition come about; None if not told."""
    results = tuple(results)
    instructions = self._instructions(computation)
    wanted, order = set(results), list(results)
    constants: dict[int, int] = {}
    elements: list[tuple[int, int]] = []
    while order:
      instruction = instructions.get(order.pop())
      if instruction is None:
        return None
      element = self._carried(computation, instruction)
      if element is not None:
        elements.append((instruction.id, element))
      elif instruction.opcode == 'constant':
        constant = _integer(instruction)
        if constant is None:
          return None
        constants[instruction.id] = constant
      elif _operation(instruction) is None:
        return None
      else:
        order += [i for i in instruction.operand_ids if i not in wanted]
        wanted.update(instruction.operand_ids)
    # An instruction stands after its operands.
    steps = tuple((i.id, tuple(i.operand_ids), _operation(i), _dtype(i))
                  for i in computation.instructions
                  if i.id in wanted and _operation(i) is not None)
    return _Formula(constants, tuple(elements), steps, results)

  def _instructions(self, computation: Any) -> dict[int, Any]:
    if computation.id not in self._by_id:
      self._by_id[computation.id] = {i.id: i for i in computation.instructions}
    return self._by_id[computation.id]

  def _origin(self, computation: Any, instruction_id: int) -> Any:
    """The instruction that makes a value, before copies of it."""
    instructions = self._instructions(computation)
    instruction = instructions.get(instruction_id)
    while instruction is not None and instruction.opcode in _COPIES:
      instruction = instructions.get(instruction.operand_ids[0])
    return instruction

  def _carried(self, computation: Any, instruction: Any) -> Optional[int]:
    """Which element of a loop's state an instruction is."""
    if instruction.opcode != 'get-tuple-element':
      return None
    state = self._origin(computation, instruction.operand_ids[0])
    return instruction.tuple_index if state.opcode == 'parameter' else None

  def _element(self, computation: Any, instruction_id: int,
               index: int) -> Optional[int]:
    """The value of an element of a tuple; None if it is not a constant."""
    origin = self._origin(computation, instruction_id)
    if origin is None:
      return None
    if origin.opcode == 'tuple':
      value = self._origin(computation, origin.operand_ids[index])
      if value.opcode == 'get-tuple-element':
        return self._element(computation, value.operand_ids[0],
                             value.tuple_index)
      return _integer(value) if value.opcode == 'constant' else None
    if origin.opcode == 'while':
      loop, outside = origin, computation
    elif origin.opcode == 'parameter' and len(
        self._parents.get(computation.id, ())) == 1:
      outside, loop = self._parents[computation.id][0]
    else:
      return None
    body = self._computations[loop.called_computation_ids[0]]
    same = self._origin(body, self._next(body, index))
    if same is None or self._carried(body, same) != index:
      return None
    return self._element(outside, loop.operand_ids[0], index)

  def _next(self, body: Any, index: int) -> int:
    """The id of what an element of the loop's state is after a trip."""
    root = self._instructions(body)[body.root_id]
    return root.operand_ids[index] if root.opcode == 'tuple' else -1


def _known(backend_config: bytes) -> Optional[int]:
  """What XLA writes down: {"known_trip_count": {"n": "12"}}."""
  if b'known_trip_count' not in backend_config:
    return None
  try:
    return int(json.loads(backend_config)['known_trip_count']['n'])
  except (ValueError, KeyError, TypeError):
    return None


def _integer(constant: Any) -> Optional[int]:
  """The value of a single whole number; None of anything else."""
  literal = constant.literal
  values = [
      *literal.preds, *literal.s32s, *literal.s64s, *literal.u32s, *literal.u64s
  ]
  dtype = _dtype(constant)
  return _wrapped(values[0], dtype) if len(values) == 1 and dtype else None


def _dtype(instruction: Any) -> str:
  """The type of a single whole number; empty for anything else."""
  arrays = array_shape.arrays_of(instruction.shape)
  if not arrays or math.prod(arrays[0].dims) != 1:
    return ''
  dtype = arrays[0].dtype
  return dtype if dtype == 'pred' or dtype[1:].isdigit(
  ) and dtype[0] in 'su' else ''


def _operation(instruction: Any) -> Optional[Callable[..., int]]:
  """What an instruction does to whole numbers; None where that is unknown."""
  if not _dtype(instruction):
    return None
  if instruction.opcode == 'compare':
    return _COMPARISONS.get(instruction.comparison_direction)
  return _OPERATIONS.get(instruction.opcode)


def _wrapped(value: int, dtype: str) -> int:
  """A number as its type holds it."""
  bits = 1 if dtype == 'pred' else int(dtype[1:])
  value = int(value) % 2**bits
  return value - 2**bits if dtype[0] == 's' and value >> (bits - 1) else value
