"""Plans: mode V2's, and what they are made of."""

from torch_xla.shardy.compile import plan
from torch_xla.shardy.compile.attempt import Attempt
from torch_xla.shardy.hlo import messages, op_sharding, protos
from torch_xla.shardy.hlo.compile_options import CompileOptions, Partitioner
from torch_xla.shardy.sharding.text import parse_sharding
from torch_xla.shardy.v2 import to_v2
from torch_xla.shardy.v2.to_v2 import ShardingCounts

_EIGHT = CompileOptions(Partitioner.GSPMD, 1, 8)


def _program(sharding: str = '{devices=[4,2]0,4,1,5,2,6,3,7}') -> bytes:
  module = messages.make(protos.HloModuleProto, name='m')
  shape = messages.make(protos.ShapeProto, element_type=11, dimensions=[8, 8])
  module.computations.add().instructions.add(
      shape=shape.SerializeToString(),
      sharding=op_sharding.to_bytes(parse_sharding(sharding)))
  return module.SerializeToString()


def test_v2_is_one_attempt_by_gspmd():
  program = _program()
  lowered = to_v2.emit(program)
  assert lowered.program == _program('{devices=[4,2]<=[2,4]T(1,0)}')
  planned = plan.plan_v2(program, 'hlo', _EIGHT)
  assert planned.name == 'm' and len(planned.steps) == 1
  assert planned.attempt() == Attempt(lowered.program, Partitioner.GSPMD,
                                      ShardingCounts(v2=1))


def test_v2_keeps_what_no_iota_says():
  """That is the record's to tell, and no reason to warn of."""
  program = _program('{devices=[4,2]7,6,5,4,3,2,1,0}')
  planned = plan.plan_v2(program, 'hlo', _EIGHT)
  attempt = planned.attempt()
  assert attempt.program is program
  assert attempt.shardings.v1 == 1
  assert planned.reason == planned.note == ''


def test_stablehlo_is_handed_on():
  planned = plan.plan_v2(b'ML\xefR', 'mlir', _EIGHT)
  assert planned.attempt() == Attempt(b'ML\xefR', Partitioner.GSPMD)
  assert planned.note == 'StableHLO is handed on unchanged'
