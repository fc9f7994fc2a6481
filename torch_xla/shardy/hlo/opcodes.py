"""Operations that `_XLAC` does not know, which later compilers write."""

from __future__ import annotations

from typing import Optional

from . import messages
from .protos import HloInstructionProto, HloModuleProto

# As XLA had them when torch_xla 2.9.0 was built.
KNOWN = frozenset('''
abs add add-dependency after-all all-gather all-gather-done all-gather-start
all-reduce all-reduce-done all-reduce-start all-to-all and async-done
async-start async-update atan2 batch-norm-grad batch-norm-inference
batch-norm-training bitcast bitcast-convert broadcast call cbrt ceil cholesky
clamp collective-broadcast collective-permute collective-permute-done
collective-permute-start compare complex concatenate conditional constant
convert convolution copy copy-done copy-start cosine count-leading-zeros
custom-call divide domain dot dynamic-reshape dynamic-slice
dynamic-update-slice erf exponential exponential-minus-one fft floor fusion
gather get-dimension-size get-tuple-element imag infeed iota is-finite log
log-plus-one logistic map maximum minimum multiply negate not opt-barrier or
outfeed pad parameter partition-id popcnt power ragged-all-to-all ragged-dot
real recv recv-done reduce reduce-precision reduce-scatter reduce-window
remainder replica-id reshape reverse rng rng-bit-generator
rng-get-and-update-state round-nearest-afz round-nearest-even rsqrt scaled-dot
scatter select select-and-scatter send send-done set-dimension-size shift-left
shift-right-arithmetic shift-right-logical sign sine slice sort sqrt
stochastic-convert subtract tan tanh topk transpose triangular-solve tuple
while xor
'''.split())

# Later compilers give these further operands; `_XLAC` then refuses them, and a
# chain of asynchronous operations that has another in it.
_ASYNC = frozenset({'async-start', 'async-update', 'async-done'})


def make_known(module: HloModuleProto) -> bool:
  """Makes a custom call of each operation that is not known; whether any is.

  `_XLAC` reads shapes and shardings of a compiled program alone, and refuses
  it for an opcode, or for the number of its operands.
  """
  instructions = [
      instruction for computation in module.computations
      for instruction in computation.instructions
  ]
  known = KNOWN
  if any(map(_has_further_operands, instructions)):
    known -= _ASYNC
  is_changed = False
  for instruction in instructions:
    if instruction.opcode and instruction.opcode not in known:
      instruction.custom_call_target = instruction.opcode
      instruction.opcode = 'custom-call'
      is_changed = True
  return is_changed


def _has_further_operands(instruction: HloInstructionProto) -> bool:
  return instruction.opcode in ('async-update', 'async-done') and len(
      instruction.operand_ids) > 1


def readable(program: bytes, program_format: str) -> Optional[bytes]:
  """A compiled program with known operations alone; None if it is that.

  Raises:
    ValueError: `program` is damaged.
  """
  parsed = messages.parse_compiled(program, program_format)
  return parsed[0].SerializeToString() if parsed and make_known(
      parsed[1]) else None
