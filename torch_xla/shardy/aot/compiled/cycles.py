"""The compiler's own estimate of how long a program takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
import json
import math
from typing import Any, Optional

from . import collectives
from .compiled_module import CompiledModule
from ..report import Cycles
from ...hlo import array_shape
from ...hlo.collectives import KINDS

# These take no time: they name, group or view what is there, or stand for
# computations of which each instruction counts by itself.
_FREE = frozenset(('add-dependency', 'after-all', 'async-done', 'async-start',
                   'async-update', 'bitcast', 'call', 'conditional', 'constant',
                   'domain', 'get-tuple-element', 'opt-barrier', 'parameter',
                   'partition-id', 'recv', 'replica-id', 'tuple', 'while'))
# Of libtpu: they give memory, see arrays that lie side by side as one, or hand
# over to the cores that run what is beside the program.
_FREE_CALLS = frozenset(
    ('AllocateBuffer', 'ConcatBitcast', 'PrepareAsyncCallDone',
     'PrepareAsyncCallStart', 'SliceId'))
_NO_ESTIMATE = 2**63 - 1
# What a fusion without an estimate is named after.
_SLOW = ('gather', 'scatter', 'sort', 'dynamic-update-slice')


def cycles(module: CompiledModule) -> Cycles:
  """Sums `estimated_cycles` over one execution.

  libtpu writes its estimate into the backend_config of fusions, copies within
  a memory, slices and whatever else it computes in windows. It has none of
  collectives and other transfers, sorts, gathers, scatters, random bits and
  custom calls: those are told by opcode, each as often as it is written, a
  fusion by the collective or the slow operation in it and a custom call by its
  target. So the sum is of the arithmetic, as if nothing had to be waited for.
  Operations on single numbers are of neither kind: libtpu does these beside.

  A program in which nothing has an estimate has no operations in its sum.
  """
  total = operations = 0
  left_out: Counter[str] = Counter()
  for computation, times in module.run():
    shapes = {i.id: i.shape for i in computation.instructions}
    for instruction in computation.instructions:
      estimate = _estimate(instruction.backend_config)
      if estimate is not None:
        total += times * estimate
        operations += 1
      else:
        left_out.update(_untold(instruction, shapes, module))
      if instruction.opcode == 'fusion':
        # What computes meanwhile has an estimate, the collective has not.
        left_out.update(
            started.kind
            for started in collectives.started_by_fusion(instruction, module))
  return Cycles(total, operations,
                tuple(sorted(left_out.items(), key=lambda o: (-o[1], o[0]))),
                module.loops_counted_once)


def _estimate(backend_config: bytes) -> Optional[int]:
  """The `estimated_cycles` of one operation."""
  if b'"estimated_cycles"' not in backend_config:
    return None
  try:
    told = int(json.loads(backend_config)['window_config']['estimated_cycles'])
  except (ValueError, KeyError, TypeError):
    return None
  # Where it cannot tell, libtpu writes none, or the largest number there is.
  return told if 0 < told < _NO_ESTIMATE else None


def _untold(instruction: Any, shapes: Mapping[int, bytes],
            module: CompiledModule) -> list[str]:
  """The names of what an instruction without an estimate does."""
  opcode = instruction.opcode
  if opcode == 'fusion':
    opcodes = {i.opcode for i in collectives.fused_in(instruction, module)}
    # Told where it starts, and this may be a further step of it.
    return [] if opcodes.intersection(KINDS) else [
        next((o for o in _SLOW if o in opcodes), 'fusion')
    ]
  if opcode == 'custom-call':
    target = instruction.custom_call_target
    return [] if target in _FREE_CALLS else [f'custom-call {target}']
  if opcode in _FREE or opcode.endswith('-done'):
    return []
  opcode = opcode.removesuffix('-start')
  if opcode not in KINDS and _is_scalar(instruction, shapes):
    return []
  return [opcode]


def _is_scalar(instruction: Any, shapes: Mapping[int, bytes]) -> bool:
  arrays = [
      array for shape in (instruction.shape,
                          *(shapes[i]
                            for i in instruction.operand_ids if i in shapes))
      for array in array_shape.arrays_of(shape)
  ]
  return all(math.prod(array.dims) <= 1 for array in arrays)
