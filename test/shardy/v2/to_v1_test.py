"""Compiled programs as `_XLAC` gets to see them: V1 lists, as XLA writes."""

import pytest
from torch_xla.shardy.hlo import messages, op_sharding, opcodes, protos
from torch_xla.shardy.sharding.text import parse_sharding
from torch_xla.shardy.v2 import to_v1
import v2_programs

_SHARDINGS = [
    ('{devices=[4,2]<=[2,4]T(1,0)}', '{devices=[4,2]0,4,1,5,2,6,3,7}'),
    ('{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}',
     '{devices=[4,1,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}'),
    ('{devices=[2,2,2]<=[8] last_tile_dims={manual, replicated}}',
     '{devices=[2,2,2]0,1,2,3,4,5,6,7 last_tile_dims={manual, replicated}}'),
    ('{{devices=[8]<=[8]}, {replicated}, {devices=[8]<=[8]}}',
     '{{devices=[8]0,1,2,3,4,5,6,7}, {replicated}, '
     '{devices=[8]0,1,2,3,4,5,6,7}}'),
    ('{devices=[2,2]3,2,1,0}', '{devices=[2,2]3,2,1,0}'),
    ('{maximal device=2}', '{maximal device=2}'),
    ('{manual}', '{manual}'),
    ('{replicated}', '{replicated}'),
]


def _module(sharding: bytes):
  """An HloModuleProto message that has the sharding in all places."""
  module = messages.make(
      protos.HloModuleProto,
      name='m',
      spmd_output_sharding=sharding,
      spmd_parameters_shardings=[b'', sharding])
  computation = module.computations.add()
  computation.instructions.add(sharding=sharding)
  computation.instructions.add()
  return module


def _with_config(module, config: bytes) -> bytes:
  """An HloModuleProtoWithConfig, whose second field is the config."""
  message = messages.make(protos.HloModuleProtoWithConfig, hlo_module=module)
  return message.SerializeToString() + b'\x12' + bytes([len(config)]) + config


@pytest.mark.parametrize('v2, v1', _SHARDINGS)
def test_v1_is_what_xla_writes(xla, v2, v1):
  given = xla.parse(v2).to_proto().SerializeToString()
  wanted = xla.parse(v1).to_proto().SerializeToString()
  program = _with_config(_module(given), b'config')
  got = to_v1.to_v1(program, 'hlo_with_config')
  if v1 == v2:
    assert got is None
  else:
    assert got == _with_config(_module(wanted), b'config')


def test_operations_of_later_compilers():
  module = _module(b'')
  first, second = module.computations[0].instructions
  first.opcode, second.opcode = 'abs', 'mulhi'
  for read in to_v1.to_v1, opcodes.readable:
    got = messages.parse(protos.HloModuleProto,
                         read(module.SerializeToString(), 'hlo'))
    assert [(i.opcode, i.custom_call_target)
            for i in got.computations[0].instructions] == [('abs', ''),
                                                           ('custom-call',
                                                            'mulhi')]
  second.opcode = 'custom-call'
  assert opcodes.readable(module.SerializeToString(), 'hlo') is None


def test_a_chain_of_asynchronous_operations_with_further_operands():
  # libtpu 0.0.52 writes it for tpu7x.
  module = _module(b'')
  start, update = module.computations[0].instructions
  start.opcode, update.opcode = 'async-start', 'async-update'
  update.operand_ids.append(1)
  assert opcodes.readable(module.SerializeToString(), 'hlo') is None
  update.operand_ids.append(2)
  got = messages.parse(protos.HloModuleProto,
                       opcodes.readable(module.SerializeToString(), 'hlo'))
  assert [i.custom_call_target for i in got.computations[0].instructions
         ] == ['async-start', 'async-update']


def test_back_from_the_lowering():
  """The canonical V1 that went in comes out, byte for byte."""
  for _, text in _SHARDINGS:
    v1 = op_sharding.to_bytes(parse_sharding(text))
    module = messages.make(protos.HloModuleProto, spmd_output_sharding=v1)
    sent = module.SerializeToString()
    handed_on = v2_programs.emit(sent).program
    back = to_v1.to_v1(handed_on, 'hlo') or handed_on
    assert back == sent


def test_other_formats_are_handed_through():
  v2 = op_sharding.to_bytes(parse_sharding(_SHARDINGS[0][0]))
  program = _module(v2).SerializeToString()
  assert to_v1.to_v1(program, 'mlir') is None
  assert to_v1.to_v1(b'no proto', 'mlir') is None


def test_a_sharding_of_an_unknown_kind_stays():
  v2, v1 = (op_sharding.to_bytes(parse_sharding(t)) for t in _SHARDINGS[0])
  unknown = b'\x08\x11'  # Type 17.
  module = _module(v2)
  module.computations[0].instructions[1].sharding = unknown
  expected = _module(v1)
  expected.computations[0].instructions[1].sharding = unknown
  got = to_v1.to_v1(module.SerializeToString(), 'hlo')
  assert got == expected.SerializeToString()


@pytest.mark.parametrize('said, results, expected', [
    ('{replicated}', [0], _SHARDINGS[0][1]),
    ('{{replicated}, {replicated}}', [0, 1],
     f'{{{_SHARDINGS[0][1]}, {_SHARDINGS[1][1]}}}'),
    ('{{replicated}}', [1], f'{{{_SHARDINGS[1][1]}}}'),
])
def test_results_are_listed(said, results, expected):
  said, expected = (
      op_sharding.to_bytes(parse_sharding(t)) for t in (said, expected))
  given = [parse_sharding(_SHARDINGS[n][0]) for n in results]
  got = to_v1.to_v1(
      _with_config(_module(said), b'config'), 'hlo_with_config', given)
  wanted = _module(said)
  wanted.spmd_output_sharding = expected
  assert got == _with_config(wanted, b'config')
