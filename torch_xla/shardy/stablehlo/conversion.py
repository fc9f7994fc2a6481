"""Programs from StableHLO to HLO and back, as jaxlib converts them.

What jaxlib says in another way, or leaves behind, is mended here:

- a sharding of a result becomes a `Sharding` call of what is returned: jaxlib
  says it of the tuple of all results, which the lowering cannot read; so does
  that of an operation, which jaxlib may fold into another;
- computations that nothing calls, copies of composites' decompositions and of
  loops' bodies, go, on either way;
- an iota of several dimensions, which jaxlib takes apart, is one again;
- donated parameters are so in StableHLO, too;
- operations that HLO has not are calls meanwhile (`kept`);
- operations that StableHLO lacks, such as `erf`, are custom calls as in what
  `_XLAC` writes, and not of another dialect, and `dot` is `dot_general`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import functools

from . import dialects
from ..annotate import call_target
from ..hlo import messages
from ..hlo.editor import drop_unused, instructions_of, uses
from ..hlo.protos import HloComputationProto, HloModuleProto
from ..rewrite.extract import SHARDING_TARGET
from ..sharding.text import parse_sharding
from ..sharding.tile_assignment import ShardingError
from .functions import (ARGUMENTS, array_of, attributes_of, CUSTOM_CALL,
                        custom_call, DONOR_ATTRIBUTE, drop_attribute,
                        functions_of, main_of, owner_of, RESULTS, returned_by,
                        set_attributes, SHARDING_ATTRIBUTE, target_of)
from .mlir import ir

# Attributes of a module. Without the first two a plugin knows a program of
# torch_xla; the others say nothing unless they are.
_NOT_IN_TORCH_XLA = ('mhlo.num_partitions', 'mhlo.num_replicas')
_SAYS_NOTHING = {
    'mhlo.cross_program_prefetches': '[]',
    'mhlo.input_output_alias': '[]',
    'mhlo.is_dynamic': 'false',
    'mhlo.use_auto_spmd_partitioning': 'false',
}
_LEGALIZE = (
    'builtin.module(hlo-legalize-to-stablehlo{allow-experimental-features=true},'
    'func.func(stablehlo-legalize-deprecated-ops{fail-on-unused=false}),'
    'symbol-dce)')


def to_hlo(module: ir.Module) -> HloModuleProto:
  """The HloModuleProto message of a module, which is used up.

  Raises:
    ProgramTextError: it cannot be converted, or has no main function.
  """
  _check(attributes_of(main_of(module), ARGUMENTS))
  with dialects.scope(module):
    _preserve_shardings(module)
    for function in functions_of(module).values():
      _constrain_results(function)
  return _mended(dialects.to_hlo(module))


def _check(arguments: Sequence[Mapping[str, ir.Attribute]]) -> None:
  """Sees to it that no sharding is one that jaxlib passes over."""
  for given in arguments:
    if SHARDING_ATTRIBUTE in given:
      try:
        parse_sharding(ir.StringAttr(given[SHARDING_ATTRIBUTE]).value)
      except ShardingError as e:
        raise dialects.ProgramTextError(
            f'a sharding that is not understood: {e}') from e


def _preserve_shardings(module: ir.Module) -> None:
  """Keeps jaxlib from dropping calls as unused, or folding them."""
  is_empty = functools.cache(_is_empty)  # Of a type: programs have few.
  for operation in dialects.operations_of(module):
    target = target_of(operation)
    if call_target.is_binding(target) or (
        (target == SHARDING_TARGET or call_target.is_tag(target)) and
        is_empty(operation.results[0].type)):
      operation.attributes['has_side_effect'] = ir.BoolAttr.get(True)
    elif (SHARDING_ATTRIBUTE in operation.attributes and
          operation.name != CUSTOM_CALL and len(operation.results) == 1 and
          (array := array_of(operation.results[0].type)) is not None):
      value = operation.results[0]
      if not array.dims:
        continue  # Of a scalar there is nothing to say.
      constraint = custom_call(
          SHARDING_TARGET, value, operation,
          {SHARDING_ATTRIBUTE: operation.attributes[SHARDING_ATTRIBUTE]})
      constraint.move_after(operation)
      value.replace_all_uses_except(constraint.result, constraint)
      del operation.attributes[SHARDING_ATTRIBUTE]


def _is_empty(kind: ir.Type) -> bool:
  array = array_of(kind)
  return array is not None and 0 in array.dims


def _constrain_results(function: ir.Operation) -> None:
  """Turns the shardings of the function's results into constraints."""
  attributes = attributes_of(function, RESULTS)
  if not any(SHARDING_ATTRIBUTE in given for given in attributes):
    return
  end = returned_by(function)
  for number, result_attributes in enumerate(attributes):
    sharding = result_attributes.pop(SHARDING_ATTRIBUTE, None)
    if sharding is not None:
      _constrain(end, number, sharding)
  set_attributes(function, RESULTS, attributes)


def _constrain(user: ir.Operation, place: int, sharding: ir.Attribute) -> None:
  """Constrains an operand; of a tuple, its elements."""
  value = user.operands[place]
  owner = owner_of(value)
  if owner is not None and owner.name == 'stablehlo.tuple':
    for number, leaf in enumerate(
        parse_sharding(ir.StringAttr(sharding).value).elements):
      _constrain(owner, number, ir.StringAttr.get(str(leaf)))
  elif (owner is None or SHARDING_ATTRIBUTE not in owner.attributes or
        owner.attributes[SHARDING_ATTRIBUTE] != sharding):
    user.operands[place] = custom_call(SHARDING_TARGET, value, user, {
        SHARDING_ATTRIBUTE: sharding
    }).result


def _mended(program: bytes) -> HloModuleProto:
  """A program as it is to be lowered, from one that jaxlib converted."""
  module = messages.parse(HloModuleProto, program)
  called = {
      c.id: {n for i in c.instructions for n in i.called_computation_ids}
      for c in module.computations
  }
  reachable, look = set(), [module.entry_computation_id]
  while look:
    number = look.pop()
    if number not in reachable:
      reachable.add(number)
      look.extend(called[number])
  for computation in list(module.computations):
    if computation.id not in reachable:
      module.computations.remove(computation)
  for computation in module.computations:
    _make_iotas_whole(computation)
  for i in instructions_of(module):
    if i.custom_call_has_side_effect and i.custom_call_target == SHARDING_TARGET:
      i.ClearField('custom_call_has_side_effect')
  return module


def _make_iotas_whole(computation: HloComputationProto) -> None:
  """Gives broadcast iotas all their dimensions."""
  iotas = {i.id: i for i in computation.instructions if i.opcode == 'iota'}
  broadcasts = [
      i for i in computation.instructions
      if i.opcode == 'broadcast' and i.operand_ids[0] in iotas
  ]
  if not broadcasts:
    return
  before = uses(computation)
  for i in broadcasts:
    iota = iotas[i.operand_ids[0]]
    i.opcode = 'iota'
    i.dimensions[:] = [i.dimensions[iota.dimensions[0]]]
    i.operand_ids[:] = []
  drop_unused(computation, before)


def from_hlo(program: HloModuleProto) -> ir.Module:
  """The module of an HloModuleProto message.

  Its parameters are no tuple.

  Raises:
    ProgramTextError: it cannot be converted.
    DoorError: jaxlib is missing.
  """
  module = dialects.from_hlo(program.SerializeToString())
  dialects.run(_LEGALIZE, module, 'cannot write a program as StableHLO')
  with dialects.scope(module):
    attributes = module.operation.attributes
    for name in _NOT_IN_TORCH_XLA:
      if name in attributes:
        del attributes[name]
    for name, text in _SAYS_NOTHING.items():
      if name in attributes and str(attributes[name]) == text:
        del attributes[name]
    donors = {entry.parameter_number for entry in program.buffer_donor.entries}
    main = main_of(module)
    given = attributes_of(main, ARGUMENTS)
    for number in donors:
      given[number][DONOR_ATTRIBUTE] = ir.BoolAttr.get(True)
    if donors:
      set_attributes(main, ARGUMENTS, given)
    for function in functions_of(module).values():
      # The operations that give results say it already.
      drop_attribute(function, RESULTS, SHARDING_ATTRIBUTE)
  return module
