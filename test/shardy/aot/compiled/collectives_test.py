"""Collectives are counted as they are run, and found on mesh axes."""

from __future__ import annotations

import compiled_texts
import pytest
from torch_xla.shardy.aot.compiled.collectives import collective_uses
from torch_xla.shardy.aot.compiled.mesh_groups import MeshValue
from torch_xla.shardy.aot.report import CollectiveUse

_MESH = MeshValue((2, 4), ('data', 'model'), tuple(range(8)))
_COLUMNS = 'replica_groups=[4,2]<=[2,4]T(1,0), use_global_device_ids=true'
_ROWS = 'replica_groups=[2,4]<=[8], use_global_device_ids=true'


def _uses(entry: str, others: str = '', meshes=(_MESH,), partitions: int = 8):
  return collective_uses(
      compiled_texts.module(entry, others, partitions=partitions), meshes)


def _reduction(name: str, operand: str, n: int, groups: str = _ROWS) -> str:
  return (f'  {name} = f32[{n}]{{0}} all-reduce({operand}), channel_id=1, '
          f'to_apply=add, {groups}\n')


def test_no_collectives():
  assert _uses('  ROOT p = f32[4]{0} parameter(0)') == ()


def test_they_are_summed_by_kind_and_axes_the_most_bytes_first():
  entry = ('  p = f32[4]{0} parameter(0)\n  q = f32[8]{0} parameter(1)\n' +
           _reduction('a', 'p', 4) + _reduction('b', 'a', 4) +
           _reduction('c', 'q', 8, _COLUMNS) +
           '''  d = f32[16]{0} all-gather(p), channel_id=9, dimensions={0},
    replica_groups=[2,4]<=[8], use_global_device_ids=true
  ROOT t = (f32[4]{0}, f32[8]{0}, f32[16]{0}) tuple(b, c, d)''')
  assert _uses(entry) == (
      CollectiveUse('all-gather', ('model',), '2 groups of 4', 1, 64),
      CollectiveUse('all-reduce', ('data',), '4 groups of 2', 1, 32),
      CollectiveUse('all-reduce', ('model',), '2 groups of 4', 2, 32),
  )


def test_groups_of_no_mesh_are_told_as_text():
  entry = '  p = f32[4]{0} parameter(0)\n' + _reduction(
      'ROOT a', 'p', 4, 'replica_groups={{0,5},{1,4},{2,7},{3,6}}, '
      'use_global_device_ids=true')
  use, = _uses(entry)
  assert (use.axes, use.groups) == ((), '4 groups of 2')
  use, = _uses(entry, meshes=())
  assert (use.axes, use.groups) == ((), '4 groups of 2')


def test_groups_within_an_axis_name_it():
  entry = '  p = f32[4]{0} parameter(0)\n' + _reduction(
      'ROOT a', 'p', 4, 'replica_groups=[4,2]<=[8], use_global_device_ids=true')
  use, = _uses(entry)
  assert (use.axes, use.groups) == ((), '4 groups of 2 along a part of model')


def test_a_permute_goes_along_the_axes_where_its_pairs_differ():
  use, = _uses('''  p = bf16[8]{0} parameter(0)
  s = (bf16[8]{0}, bf16[8]{0}, u32[], u32[]) collective-permute-start(p),
    channel_id=1, source_target_pairs={{0,4},{1,5},{2,2}}
  ROOT d = bf16[8]{0} collective-permute-done(s)''')
  assert use == CollectiveUse('collective-permute', ('data',),
                              '2 of 8 devices send', 1, 16)


def test_a_start_and_its_end_are_one():
  uses = _uses('''  p = f32[4]{0} parameter(0)
  s = (f32[4]{0}, f32[8]{0}) all-gather-start(p), channel_id=1, dimensions={0},
    replica_groups=[4,2]<=[2,4]T(1,0), use_global_device_ids=true
  ROOT d = f32[8]{0} all-gather-done(s)''')
  assert uses == (CollectiveUse('all-gather', ('data',), '4 groups of 2', 1,
                                32),)


def test_what_runs_beside_counts_once():
  uses = _uses(
      '''  p = f32[8]{0} parameter(0)
  s = ((f32[8]{0}), f32[4]{0}, u32[]) async-start(p), calls=wrapped
  u = ((f32[8]{0}), f32[4]{0}, u32[]) async-update(s)
  ROOT d = f32[4]{0} async-done(u)''', '''wrapped {
  q = f32[8]{0} parameter(0)
  ROOT r = f32[4]{0} reduce-scatter(q), channel_id=1, dimensions={0},
    to_apply=add, replica_groups=[4,2]<=[2,4]T(1,0), use_global_device_ids=true
}
''')
  assert uses == (CollectiveUse('reduce-scatter', ('data',), '4 groups of 2', 1,
                                32),)


def test_loops_count_by_their_trips():
  work = '  x = f32[4]{0} broadcast(f), dimensions={}\n'
  work = '  f = f32[] constant(1)\n' + work + _reduction('a', 'x', 4)
  uses = _uses(
      compiled_texts.run('l') + '\n  ROOT p = f32[4]{0} parameter(0)',
      compiled_texts.counted('l', 5, work))
  assert uses == (CollectiveUse('all-reduce', ('model',), '2 groups of 4', 5,
                                80),)


_GATHER = '''  g = f32[8]{0} all-gather(q), channel_id=6, dimensions={0},
    replica_groups=[4,2]<=[2,4]T(1,0), use_global_device_ids=true,
    frontend_attributes={chain_id="0"}
'''
# As libtpu fuses a gather with two computations.
_CHAIN = f'''first {{
  q = f32[4]{{0}} parameter(0)
{_GATHER}
  ROOT c = (f32[4]{{0}}, f32[8]{{0}}, u32[]) custom-call(g),
    custom_call_target="AsyncCollectiveStart"
}}
second {{
  q = f32[4]{{0}} parameter(0)
  m = f32[4]{{0}} negate(q)
{_GATHER}
  ROOT t = (f32[4]{{0}}, f32[8]{{0}}) tuple(m, g)
}}
last {{
  q = f32[4]{{0}} parameter(0)
{_GATHER}
  ROOT c = f32[8]{{0}} custom-call(g), custom_call_target="AsyncCollectiveDone"
}}
'''


def test_a_gather_that_is_cut_into_steps_counts_once():
  uses = _uses(
      '''  p = f32[4]{0} parameter(0)
  s = (f32[4]{0}, f32[8]{0}, u32[]) fusion(p), kind=kCustom, calls=first
  t = f32[4]{0} get-tuple-element(s), index=0
  u = (f32[4]{0}, f32[8]{0}) fusion(t), kind=kOutput, calls=second
  v = f32[4]{0} get-tuple-element(u), index=0
  ROOT d = f32[8]{0} fusion(v), kind=kCustom, calls=last''', _CHAIN)
  assert uses == (CollectiveUse('all-gather', ('data',), '4 groups of 2', 1,
                                32),)


@pytest.mark.parametrize('kept, kind', [
    ('dynamic-slice(r, z), dynamic_slice_sizes={4}', 'reduce-scatter'),
    ('slice(r), slice={[0:4]}', 'all-reduce'),
])
def test_a_fused_reduction_of_which_a_slice_is_kept(kept, kind):
  uses = _uses(
      '''  p = f32[8]{0} parameter(0)
  ROOT f = f32[4]{0} fusion(p), kind=kCustom, calls=fused''', f'''fused {{
  q = f32[8]{{0}} parameter(0)
  z = s32[] constant(0)
{_reduction("a", "q", 8, _COLUMNS)}
  r = f32[8]{{0}} bitcast(a)
  ROOT k = f32[4]{{0}} {kept}
}}
''')
  assert uses == (CollectiveUse(kind, ('data',), '4 groups of 2', 1, 32),)


def test_a_fusion_in_a_fusion():
  uses = _uses(
      '''  p = f32[4]{0} parameter(0)
  ROOT f = f32[4]{0} fusion(p), kind=kCustom, calls=outer''', f'''inner {{
  q = f32[4]{{0}} parameter(0)
{_reduction("ROOT a", "q", 4)}
}}
outer {{
  q = f32[4]{{0}} parameter(0)
  ROOT f = f32[4]{{0}} fusion(q), kind=kLoop, calls=inner
}}
''')
  assert [(u.kind, u.count) for u in uses] == [('all-reduce', 1)]


# libtpu's program of the first of two slices, of 4 devices each.
_SLICES = '''  p = f32[4]{0} parameter(0)
  a = f32[4]{0} all-reduce(p), channel_id=3, to_apply=add,
    replica_groups={{0,1,2,3}}, use_global_device_ids=true
  k = token[] after-all()
  s = (f32[4]{0}, u32[], token[]) send(a, k), channel_id=1,
    is_host_transfer=true, frontend_attributes={ATTRIBUTES}
  e = token[] send-done(s), channel_id=1, is_host_transfer=true
  r = (f32[8]{0}, u32[], token[]) recv(e), channel_id=2, is_host_transfer=true,
    frontend_attributes={ATTRIBUTES}
  d = (f32[8]{0}, token[]) recv-done(r), channel_id=2, is_host_transfer=true
  ROOT g = f32[8]{0} get-tuple-element(d), index=0'''
_ATTRIBUTES = ('_xla_host_transfer_rendezvous="here",'
               '_xla_megascale_transfer_type="ALL_GATHER",'
               '_xla_megascale_target="{1,2}x{0:3}"')


def test_slices_are_told_apart():
  uses = _uses(_SLICES.replace('ATTRIBUTES', _ATTRIBUTES), partitions=4)
  assert uses == (
      CollectiveUse('all-gather', ('data',), '4 groups of 2 between slices', 1,
                    32),
      CollectiveUse('all-reduce', ('model',), '2 groups of 4', 1, 16),
  )


def test_what_goes_to_the_host_alone_is_no_collective():
  attributes = '_xla_host_transfer_rendezvous="callback"'
  uses = _uses(_SLICES.replace('ATTRIBUTES', attributes), partitions=4)
  assert [u.kind for u in uses] == ['all-reduce']


def test_without_a_device_assignment_the_groups_tell_the_devices():
  entry = '  p = f32[4]{0} parameter(0)\n' + _reduction('ROOT a', 'p', 4)
  use, = _uses(entry, partitions=0)
  assert use.axes == ('model',)


def test_a_program_on_a_part_of_the_devices_is_of_no_mesh():
  use, = _uses(
      '  p = f32[4]{0} parameter(0)\n' +
      _reduction('ROOT a', 'p', 4, 'replica_groups={{0,1,2,3}}, '
                 'use_global_device_ids=true'),
      partitions=4)
  assert (use.axes, use.groups) == ((), '1 group of 4')
