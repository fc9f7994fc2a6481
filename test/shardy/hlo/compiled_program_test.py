"""What is read from a compiled program, built as XLA writes it."""

import pytest
from torch_xla.shardy.hlo import compiled_program, messages, op_sharding, protos
from torch_xla.shardy.hlo.compiled_program import Collective
from torch_xla.shardy.sharding.text import parse_sharding

hlo = pytest.importorskip('jaxlib._hlo', reason='needs jaxlib: HLO text')
_ADD = '''
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
'''


def _module(entry: str, others: str = ''):
  return messages.parse(
      protos.HloModuleProto,
      hlo.hlo_module_from_text(
          f'HloModule m, num_partitions=8\n{_ADD}{others}\n'
          f'ENTRY e {{\n{entry}\n}}\n').as_serialized_hlo_module_proto())


def _read(module, sources=frozenset()) -> compiled_program.CompiledProgram:
  return compiled_program.read(module.SerializeToString(), 'hlo', sources)


def _collectives(entry: str, others: str = ''):
  return _read(_module(entry, others)).collectives


def _bytes(text: str) -> bytes:
  return op_sharding.to_bytes(parse_sharding(text))


@pytest.mark.parametrize(
    'entry, expected',
    [
        ('ROOT p = f32[4]{0} parameter(0)', ()),
        ('''p = f32[4]{0} parameter(0)
        ROOT r = f32[4]{0} all-reduce(p), channel_id=1, to_apply=add,
          replica_groups=[1,8]<=[8], use_global_device_ids=true''',
         (Collective('all-reduce', 1, 16, 16),)),
        # Of two arrays at once, and a second one.
        ('''p = f32[4]{0} parameter(0)
        q = f32[] parameter(1)
        r = (f32[4]{0}, f32[]) all-reduce(p, q), channel_id=1, to_apply=add,
          replica_groups=[1,8]<=[8], use_global_device_ids=true
        ROOT s = f32[] all-reduce(q), channel_id=2, to_apply=add,
          replica_groups=[1,8]<=[8], use_global_device_ids=true''',
         (Collective('all-reduce', 2, 24, 4),)),
        # Gives 16 bytes and gets 128; the other way round in a reduce-scatter.
        ('''p = f32[4]{0} parameter(0)
        ROOT r = f32[32]{0} all-gather(p), channel_id=1, dimensions={0},
          replica_groups=[1,8]<=[8], use_global_device_ids=true''',
         (Collective('all-gather', 1, 128, 128),)),
        ('''p = f32[32]{0} parameter(0)
        ROOT r = f32[4]{0} reduce-scatter(p), channel_id=1, dimensions={0},
          to_apply=add, replica_groups=[1,8]<=[8],
          use_global_device_ids=true''',
         (Collective('reduce-scatter', 1, 128, 128),)),
        ('''p = bf16[8]{0} parameter(0)
        ROOT r = bf16[8]{0} all-to-all(p), channel_id=1, dimensions={0},
          replica_groups=[1,8]<=[8]''', (Collective('all-to-all', 1, 16, 16),)),
        # Sorted by kind.
        ('''p = f32[4]{0} parameter(0)
        c = f32[4]{0} collective-permute(p), channel_id=1,
          source_target_pairs={{0,1},{1,0}}
        ROOT r = f32[4]{0} all-reduce(c), channel_id=2, to_apply=add,
          replica_groups=[1,8]<=[8], use_global_device_ids=true''',
         (Collective('all-reduce', 1, 16,
                     16), Collective('collective-permute', 1, 16, 16))),
        # Nothing is moved of an empty array, but it counts.
        ('''p = f32[0]{0} parameter(0)
        ROOT r = f32[0]{0} all-reduce(p), channel_id=1, to_apply=add,
          replica_groups=[1,8]<=[8], use_global_device_ids=true''',
         (Collective('all-reduce', 1, 0, 0),)),
    ])
def test_collectives(entry, expected):
  assert _collectives(entry) == expected


@pytest.mark.parametrize('entry, expected', [
    ('''p = f32[4]{0} parameter(0)
        s = f32[4]{0} all-reduce-start(p), channel_id=1, to_apply=add,
          replica_groups=[1,8]<=[8], use_global_device_ids=true
        ROOT d = f32[4]{0} all-reduce-done(s)''',
     Collective('all-reduce', 1, 16, 16)),
    ('''p = f32[4]{0} parameter(0)
        s = (f32[4]{0}, f32[32]{0}) all-gather-start(p), channel_id=1,
          dimensions={0}, replica_groups=[1,8]<=[8],
          use_global_device_ids=true
        ROOT d = f32[32]{0} all-gather-done(s)''',
     Collective('all-gather', 1, 128, 128)),
    ('''p = f32[4]{0} parameter(0)
        s = (f32[4]{0}, f32[4]{0}) collective-permute-start(p), channel_id=1,
          source_target_pairs={{0,1},{1,0}}
        ROOT d = f32[4]{0} collective-permute-done(s)''',
     Collective('collective-permute', 1, 16, 16)),
])
def test_asynchronous_collectives_count_once(entry, expected):
  """And their operands, which some starts give back, do not."""
  assert _collectives(entry) == (expected,)


def test_collectives_in_nested_computations():
  found = _collectives(
      '''p = f32[4]{0} parameter(0)
         ROOT r = f32[4]{0} call(p), to_apply=inner''', '''
inner {
  q = f32[4]{0} parameter(0)
  ROOT r = f32[4]{0} all-reduce(q), channel_id=1, to_apply=add,
    replica_groups=[1,8]<=[8], use_global_device_ids=true
}
''')
  assert found == (Collective('all-reduce', 1, 16, 16),)


def test_shardings():
  module = _module('ROOT p = f32[4]{0} parameter(0)')
  assert _read(module).parameters is None
  assert _read(module).results is None
  tiled = parse_sharding('{devices=[8]<=[8]}')
  whole = parse_sharding('{replicated}')
  module.spmd_parameters_shardings.append(_bytes('{devices=[8]<=[8]}'))
  module.spmd_parameters_shardings.append(b'')
  module.spmd_output_sharding = _bytes('{{replicated}, {devices=[8]<=[8]}}')
  read = _read(module)
  assert read.parameters == (tiled, whole)
  assert read.results == (whole, tiled)
  module.spmd_output_sharding = b''
  assert _read(module).results == (whole,)


def test_a_sharding_that_is_not_understood_is_none():
  """Not known, rather than a wrong one; what else there is stays."""
  module = _module('''p = f32[4]{0} parameter(0)
    ROOT r = f32[4]{0} all-reduce(p), channel_id=1, to_apply=add,
      replica_groups=[1,8]<=[8], use_global_device_ids=true''')
  module.spmd_parameters_shardings.append(b'')
  module.spmd_parameters_shardings.append(b'\x08\x63')
  module.spmd_output_sharding = b'\x08\x63'
  read = _read(module)
  assert read.parameters is None and read.results is None
  assert read.collectives == (Collective('all-reduce', 1, 16, 16),)


def test_local_shapes():
  """The same opcode is the instruction itself; other ones stem from it."""
  module = _module('''
    p = f32[4,2]{1,0} parameter(0), metadata={op_name="p7"}
    n = f32[4,2]{1,0} negate(p), metadata={op_name="n1"}
    c = f32[2,4]{0,1} bitcast(n), metadata={op_name="n1"}
    a = f32[4,2]{1,0} add(n, p), metadata={op_name="twice"}
    z = f32[8]{0} parameter(1), metadata={op_name="other"}
    b = f32[8]{0} add(z, z), metadata={op_name="twice"}
    d = f32[4,2]{1,0} add(a, a), metadata={op_name="same"}
    e = f32[4,2]{1,0} add(d, d), metadata={op_name="same"}
    ROOT t = (f32[4,2]{1,0}, f32[8]{0}, f32[2,4]{0,1}) tuple(e, b, c)''')
  asked = frozenset({('p7', 'parameter'), ('n1', 'negate'), ('twice', 'add'),
                     ('same', 'add'), ('gone', 'add'), ('n1', 'add')})
  read = _read(module, asked)
  assert {
      k: str(v) for k, v in read.local_shapes.items()
  } == {
      ('p7', 'parameter'): 'f32[4,2]',
      ('n1', 'negate'): 'f32[4,2]',
      ('same', 'add'): 'f32[4,2]',
  }
  assert _read(module).local_shapes == {}


def test_formats():
  module = _module('ROOT p = f32[4]{0} parameter(0)')
  module.spmd_parameters_shardings.append(_bytes('{devices=[8]<=[8]}'))
  data = module.SerializeToString()
  with_config = messages.make(
      protos.HloModuleProtoWithConfig, hlo_module=module).SerializeToString()
  one = compiled_program.read(data, 'hlo')
  assert one == compiled_program.read(with_config, 'hlo_with_config')
  assert len(one.parameters) == 1
  assert compiled_program.read(data, 'mlir') is None
  assert compiled_program.read(b'\xff garbage', 'stablehlo') is None
