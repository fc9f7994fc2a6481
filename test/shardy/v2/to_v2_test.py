"""The lowering from V1 to V2, judged by XLA's own module printer."""

import re
import time

from google.protobuf import unknown_fields
import pytest
from torch_xla.shardy.hlo import messages, op_sharding, protos
from torch_xla.shardy.sharding.hlo_sharding import NO_IOTA
from torch_xla.shardy.sharding.text import parse_sharding
from torch_xla.shardy.v2 import to_v2
from torch_xla.shardy.v2.to_v2 import ShardingCounts
import v2_programs

# Everywhere that a module can have a sharding.
_TEMPLATE = '''HloModule m, num_partitions=8

add {{
  a = f32[] parameter(0), sharding={whole}
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b), sharding={whole}
}}

called {{
  q = f32[16,16]{{1,0}} parameter(0)
  ROOT d = f32[16,16]{{1,0}} custom-call(q), custom_call_target="Sharding",
    sharding={partial}
}}

ENTRY e {{
  p0 = f32[16,16]{{1,0}} parameter(0), sharding={tiled}
  p1 = (f32[8]{{0}}, (f32[16,16]{{1,0}}, f32[])) parameter(1),
    sharding={{{vector}, {partial}, {whole}}}
  g = f32[8]{{0}} get-tuple-element(p1), index=0, sharding={vector}
  l = f32[16,16]{{1,0}} call(p0), to_apply=called
  m = f32[16,16]{{1,0}} custom-call(l),
    custom_call_target="SPMDFullToShardShape", sharding={subgroup}
  n = f32[16,16]{{1,0}} add(m, p0), sharding={manual}
  z = f32[] constant(0), sharding={maximal}
  r = f32[] reduce(g, z), dimensions={{0}}, to_apply=add
  ROOT t = (f32[16,16]{{1,0}}, f32[]) tuple(n, r), sharding={{{tiled}, {whole}}}
}}
'''
_SAME = {
    'whole': '{replicated}',
    'manual': '{manual}',
    'maximal': '{maximal device=3}'
}
_V1 = {
    'tiled': '{devices=[4,2]0,4,1,5,2,6,3,7}',
    'vector': '{devices=[8]0,2,4,6,1,3,5,7}',
    'partial': '{devices=[2,1,4]0,2,4,6,1,3,5,7 last_tile_dim_replicate}',
    'subgroup': '{devices=[2,1,2,2]0,1,2,3,4,5,6,7 '
                'last_tile_dims={manual, replicated}}',
    **_SAME
}
_V2 = {
    'tiled': '{devices=[4,2]<=[2,4]T(1,0)}',
    'vector': '{devices=[8]<=[4,2]T(1,0)}',
    'partial': '{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}',
    'subgroup': '{devices=[2,1,2,2]<=[8] last_tile_dims={manual, replicated}}',
    **_SAME
}


def _proto(text: str) -> bytes:
  from jaxlib import _hlo
  return _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()


def _text(program: bytes) -> str:
  from jaxlib import _hlo
  return _hlo.HloModule.from_serialized_hlo_module_proto(program).to_string()


def _bytes(text: str) -> bytes:
  return op_sharding.to_bytes(parse_sharding(text))


def _module(shardings, shape=None):
  """A module message with one instruction for each serialised sharding."""
  shape = shape or messages.make(
      protos.ShapeProto, element_type=11, dimensions=[8, 8])
  module = messages.make(protos.HloModuleProto, name='m')
  computation = module.computations.add()
  for sharding in shardings:
    computation.instructions.add(
        shape=shape.SerializeToString(), sharding=sharding)
  return module


def _lower_one(sharding: bytes, shape=None):
  lowered = v2_programs.emit(_module([sharding], shape).SerializeToString())
  module = messages.parse(protos.HloModuleProto, lowered.program)
  return module.computations[0].instructions[0].sharding, lowered.shardings


def test_every_sharding_of_a_module(xla):
  del xla
  lowered = v2_programs.emit(_proto(_TEMPLATE.format(**_V1)))
  expected = _text(_proto(_TEMPLATE.format(**_V2)))
  assert expected.count('<=') == 7
  assert _text(lowered.program) == expected
  assert lowered.shardings == ShardingCounts(v2=7)


def test_lowering_again_changes_nothing(xla):
  del xla
  once = v2_programs.emit(_proto(_TEMPLATE.format(**_V1))).program
  again = v2_programs.emit(once)
  assert again.program is once
  assert again.shardings.v2 == 7


def test_shardings_of_the_module_itself(xla):
  del xla
  from jaxlib import _hlo
  module = messages.parse(protos.HloModuleProto,
                          _proto(_TEMPLATE.format(**_V2)))
  module.spmd_output_sharding = _bytes('{%s, {replicated}}' % _V1['tiled'])
  module.spmd_parameters_shardings.append(_bytes(_V1['vector']))
  module.spmd_parameters_shardings.append(_bytes('{replicated}'))
  lowered = v2_programs.emit(module.SerializeToString())
  read = _hlo.HloModule.from_serialized_hlo_module_proto(lowered.program)
  text = lambda sharding: str(_hlo.HloSharding.from_proto(sharding))
  assert text(read.spmd_output_sharding) == ('{%s, {replicated}}' %
                                             _V2['tiled'])
  assert [text(s) for s in read.spmd_parameters_shardings
         ] == [_V2['vector'], '{replicated}']
  assert lowered.shardings == ShardingCounts(v2=9)


def test_no_shardings_no_change(xla):
  del xla
  program = _proto(re.sub(r',\s+sharding=.*', '', _TEMPLATE.format(**_V1)))
  lowered = v2_programs.emit(program)
  assert lowered.program is program
  assert lowered.shardings == ShardingCounts()


@pytest.mark.parametrize('sharding, is_left', [
    ('{manual}', True),
    ('{devices=[2]<=[2]}', False),
])
def test_loops_are_free_but_in_a_manual_region(sharding, is_left):
  """Of one value, which is no tuple."""
  pytest.importorskip('jaxlib', reason='needs jaxlib: HLO text')
  module = messages.parse(
      protos.HloModuleProto,
      _proto(f'''HloModule m
b {{ x = f32[8] parameter(0), sharding={sharding}
  ROOT y = f32[8] add(x, x) }}
c {{ x = f32[8] parameter(0), sharding={sharding}
  ROOT y = pred[] constant(false) }}
ENTRY e {{ x = f32[8] parameter(0), sharding={sharding}
  ROOT y = f32[8] while(x), body=b, condition=c }}'''))
  assert to_v2.make_partitionable(module)[0] is not is_left
  shardings = [
      i.HasField('sharding')
      for c in module.computations
      for i in c.instructions
      if i.opcode == 'parameter'
  ]
  assert sorted(shardings) == [is_left, is_left, True]


def test_replicated_stays_present():
  """An OpSharding of no bytes is a sharding; none at all is another matter."""
  module = _module([_bytes(_V1['tiled']), b''])
  module.computations[0].instructions.add()
  lowered = messages.parse(protos.HloModuleProto,
                           v2_programs.emit(module.SerializeToString()).program)
  has = [i.HasField('sharding') for i in lowered.computations[0].instructions]
  assert has == [True, True, False]


@pytest.mark.parametrize('v1, canonical', [
    ('{devices=[1,1,8]0,1,2,3,4,5,6,7 last_tile_dim_replicate}',
     '{replicated}'),
    ('{devices=[1,1,8]0,1,2,3,4,5,6,7 last_tile_dims={manual}}', '{manual}'),
    ('{devices=[2,1,4]0,4,2,6,7,3,5,1 last_tile_dim_replicate}',
     '{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}'),
])
def test_what_is_not_canonical_becomes_so(v1, canonical):
  dims, devices = re.match(r'{devices=\[(.*?)\](\S*)[ }]', v1).groups()
  message = messages.make(
      protos.OpSharding,
      type=3,
      tile_assignment_dimensions=map(int, dims.split(',')),
      tile_assignment_devices=map(int, devices.split(',')),
      replicate_on_last_tile_dim='replicate' in v1,
      last_tile_dims=[4] if 'manual' in v1 else [])
  data, counts = _lower_one(message.SerializeToString())
  assert data == _bytes(canonical)
  assert counts == ShardingCounts(v2=1)


_OTHER = dict(type=3, tile_assignment_dimensions=[4, 2])


def _other(**fields) -> bytes:
  return messages.make(protos.OpSharding, **{
      **_OTHER,
      **fields
  }).SerializeToString()


@pytest.mark.parametrize('data, reason', [
    (_bytes('{devices=[4,2]7,6,5,4,3,2,1,0}'), NO_IOTA),
    (_bytes('{devices=[8]0,1,2,3,4,5,6,7}'),
     'a sharding for rank 1 on an array of rank 2'),
    (_other(tile_assignment_devices=[0, 1, 2, 3, 4, 5, 6, 6]),
     'device 6 is listed 2 times, device 7 is missing'),
    (_other(tile_assignment_devices=[0, 1, 2, 3, 4, 5, 6, 9]),
     'device 9 is not one of 0 to 7'),
    (_other(tile_assignment_devices=range(6)),
     'tile assignment dims [4, 2] hold 8 devices, but 6 are listed'),
    (_other(type=9), 'sharding type 9 is not known here'),
    (b'\x08\x03\x1a\x09\x01', 'not a valid OpSharding (5 bytes)'),
    (_bytes('{{replicated}, {replicated}}'),
     'a tuple sharding of 2 elements on a shape of 1'),
])
def test_what_cannot_be_v2_goes_on_as_it_came(data, reason):
  """And the others around it become V2 all the same."""
  good = _bytes(_V1['tiled'])
  program = _module([data, good, data]).SerializeToString()
  lowered = v2_programs.emit(program)
  first, second, third = messages.parse(
      protos.HloModuleProto, lowered.program).computations[0].instructions
  assert first.sharding == third.sharding == data
  assert second.sharding == _bytes(_V2['tiled'])
  (said, count), = lowered.shardings.unconverted
  assert said.startswith(reason)
  assert count == lowered.shardings.v1 == 2
  assert lowered.shardings.v2 == 1


def _tuple_shape(*ranks: int):
  shape = messages.make(protos.ShapeProto, element_type=13)
  for rank in ranks:
    shape.tuple_shapes.add(element_type=11, dimensions=[8] * rank)
  return shape


def test_leaves_of_a_tuple_are_lowered_one_by_one():
  damaged = _other(tile_assignment_devices=[0, 0, 1, 2, 3, 4, 5, 6])
  data = messages.make(
      protos.OpSharding,
      type=2,
      tuple_shardings=[
          _bytes(_V1['tiled']), damaged,
          _bytes(_V1['vector']),
          _bytes(_V1['vector'])
      ]).SerializeToString()
  got, counts = _lower_one(data, _tuple_shape(2, 2, 1, 2))
  leaves = op_sharding.parse(got).tuple_shardings
  assert list(leaves) == [
      _bytes(_V2['tiled']), damaged,
      _bytes(_V2['vector']),
      _bytes(_V1['vector'])
  ]
  assert counts.v2 == 2
  assert [reason for reason, _ in counts.unconverted] == [
      'a sharding for rank 1 on an array of rank 2',
      'device 0 is listed 2 times, device 7 is missing'
  ]


def test_one_sharding_for_all_leaves_of_a_tuple():
  """XLA puts it on each leaf, so it has to fit each."""
  data = _bytes(_V1['tiled'])
  assert _lower_one(data, _tuple_shape(2, 2))[0] == _bytes(_V2['tiled'])
  got, counts = _lower_one(data, _tuple_shape(2, 1))
  assert got == data
  assert counts.v1 == 1


def test_the_sharding_of_an_empty_tuple():
  data = messages.make(
      protos.OpSharding, type=2, tuple_shardings=[b'']).SerializeToString()
  assert _lower_one(data, _tuple_shape()) == (data, ShardingCounts())


def _field(number: int, text: bytes) -> bytes:
  """A length-delimited field, serialised."""
  tag = number << 3 | 2
  return bytes([tag & 127 | 128, tag >> 7, len(text)]) + text


def test_unknown_fields_and_opcodes_are_kept():
  """In the module, a computation, an instruction and the sharding itself."""
  sharding = _bytes(_V1['tiled']) + _field(500, b'in the sharding')
  shape = messages.make(protos.ShapeProto, element_type=11, dimensions=[8, 8])
  instruction = messages.make(
      protos.HloInstructionProto,
      opcode='warp',
      shape=shape.SerializeToString(),
      sharding=sharding).SerializeToString()
  instruction += _field(500, b'in the instruction')
  computation = bytes(
      [0x12, 0x80 | len(instruction) & 127,
       len(instruction) >> 7]) + instruction
  computation += _field(500, b'in the computation')
  module = b'\x0a\x01m' + bytes(
      [0x1a, 0x80 | len(computation) & 127,
       len(computation) >> 7]) + computation
  module += _field(500, b'in the module')
  lowered = v2_programs.emit(module)
  assert lowered.shardings == ShardingCounts(v2=1)

  def unknown(message):
    return [(f.field_number, f.data)
            for f in unknown_fields.UnknownFieldSet(message)]

  module = messages.parse(protos.HloModuleProto, lowered.program)
  computation, = module.computations
  instruction, = computation.instructions
  message = op_sharding.parse(instruction.sharding)
  assert unknown(module) == [(500, b'in the module')]
  assert unknown(computation) == [(500, b'in the computation')]
  assert instruction.opcode == 'warp'
  assert unknown(instruction) == [(500, b'in the instruction')]
  assert unknown(message) == [(500, b'in the sharding')]
  assert list(message.iota_reshape_dims) == [2, 4]


def test_each_different_sharding_is_looked_at_once():
  """65,536 devices on 300 instructions and in a tuple of 300 leaves.

  Reading one takes some milliseconds: 600 of them would take seconds.
  """
  v1 = parse_sharding('{devices=[256,256]<=[65536]}').to_v1()
  data = op_sharding.to_bytes(v1)
  module = _module([data] * 300)
  module.computations[0].instructions.add(
      shape=_tuple_shape(*[2] * 300).SerializeToString(),
      sharding=messages.make(
          protos.OpSharding, type=2,
          tuple_shardings=[data] * 300).SerializeToString())
  program = module.SerializeToString()
  start = time.process_time()
  lowered = v2_programs.emit(program)
  assert time.process_time() - start < 1.5
  assert lowered.shardings == ShardingCounts(v2=600)
  assert len(lowered.program) < 30_000 < 100_000_000 < len(program)
