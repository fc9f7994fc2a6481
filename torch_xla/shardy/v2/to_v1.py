"""Turns a compiled program's shardings back from V2 to V1, for `_XLAC`.

`_XLAC` reads the shardings of a program's results from the compiled program
and compares them, as serialised protos, with those that it makes itself. It
makes V1 lists, so that is what it gets to see. The replica groups of
collectives stay as they are: XLA writes iotas there for V1 shardings too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
import functools
from typing import Optional

from ..hlo import messages, op_sharding, opcodes
from ..sharding.hlo_sharding import HloSharding, ShardingType
from ..sharding.tile_assignment import ShardingError


def to_v1(
    program: bytes, program_format: str,
    results: Sequence[HloSharding] = ()) -> Optional[bytes]:
  """A compiled program with every device of its shardings listed.

  Its operations are such as `_XLAC` knows (`hlo.opcodes`).

  Args:
    program: serialised, as PJRT_Executable_OptimizedProgram gives it.
    program_format: 'hlo' or 'hlo_with_config'; of others none is known to have
      shardings that `_XLAC` reads.
    results: what it is to say of its results; empty: what it says.

  Returns:
    The program; None if it can stay as it is.

  Raises:
    ValueError: `program` is damaged.
  """
  parsed = messages.parse_compiled(program, program_format)
  if parsed is None:
    return None
  message, module = parsed

  @functools.cache
  def v1_of(data: bytes) -> bytes:
    return _sharding_to_v1(data, v1_of)

  is_changed = op_sharding.rewrite_module(
      module, lambda data, _: data if v1_of(data) == data else v1_of(data))
  if results:
    is_changed = True
    output = op_sharding.from_bytes(module.spmd_output_sharding)
    listed = [sharding.to_v1() for sharding in results]
    if output.type == ShardingType.TUPLE:
      output = HloSharding.tuple_of(listed)
    else:
      output, = listed
    module.spmd_output_sharding = op_sharding.to_bytes(output)
  if not opcodes.make_known(module) and not is_changed:
    return None
  return message.SerializeToString()


def _sharding_to_v1(data: bytes, v1_of: Callable[[bytes], bytes]) -> bytes:
  """The V1 form of a serialised OpSharding, by that of its leaves."""
  try:
    message = op_sharding.parse(data)
    if message.type == ShardingType.TUPLE:
      message.tuple_shardings[:] = map(v1_of, message.tuple_shardings)
    elif message.iota_reshape_dims:
      op_sharding.write(op_sharding.read(message).to_v1(), message)
    else:
      return data
  except ShardingError:
    # The compiler's own, and of a kind that is not known here: `_XLAC` decides.
    return data
  return message.SerializeToString()
