"""The groups of a collective, in all the ways in which XLA writes them."""

from __future__ import annotations

import compiled_texts
import pytest
from torch_xla.shardy.aot.compiled import replica_groups

_PAIRS = ((0, 4), (1, 5), (2, 6), (3, 7))


def _collective(attributes: str, opcode: str = 'all-reduce'):
  given = ', to_apply=add' if opcode == 'all-reduce' else ''
  module = compiled_texts.module(f'''  p = f32[8]{{0}} parameter(0)
  ROOT r = f32[8]{{0}} {opcode}(p){given}, {attributes}''')
  return next(i for i in module.entry.instructions if i.opcode == opcode)


def _groups(attributes: str,
            replicas: int = 1,
            partitions: int = 8,
            opcode: str = 'all-reduce'):
  return replica_groups.groups_of(
      _collective(attributes, opcode), opcode, replicas, partitions)


def _global(groups: str) -> str:
  return f'replica_groups={groups}, channel_id=1, use_global_device_ids=true'


@pytest.mark.parametrize(
    'written, groups',
    [
        ('{{0,4},{1,5},{2,6},{3,7}}', _PAIRS),
        ('{{3,7},{0,4},{2,6},{1,5}}', ((3, 7), (0, 4), (2, 6), (1, 5))),
        ('{{0,1,2,3,4,5,6,7}}', (tuple(range(8)),)),
        ('[4,2]<=[2,4]T(1,0)', _PAIRS),
        ('[2,4]<=[8]', ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("mesh['a'=2,'b'=4] {'a'}", _PAIRS),
        ("mesh['a'=2,'b'=4] {'b'}", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("mesh['a'=2,'b'=1,'c'=4] {'a','c'}", (tuple(range(8)),)),
        ("mesh['a'=2,'b'=4] {'b','a'}", ((0, 4, 1, 5, 2, 6, 3, 7),)),
        # The left half of an axis, its right half, both in turn.
        ("mesh['a'=2,'b'=4] {'b':(1)2}", ((0, 2), (1, 3), (4, 6), (5, 7))),
        ("mesh['a'=2,'b'=4] {'b':(2)2}", ((0, 1), (2, 3), (4, 5), (6, 7))),
        ("mesh['a'=8] {'a':(1)2,'a':(4)2}", ((0, 1, 4, 5), (2, 3, 6, 7))),
        # Meshes over other orders of the devices.
        ("mesh['a'=4,'b'=2], device_ids=([2,4]T(1,0)) {'b'}", _PAIRS),
        ("mesh['a'=2,'b'=4], device_ids=([2,2,2]T(2,0,1)) {'b'}",
         ((0, 2, 4, 6), (1, 3, 5, 7))),
        ("mesh['a'=4,'b'=2], device_ids=(0,2,4,6,7,5,3,1) {'b'}",
         ((0, 2), (4, 6), (7, 5), (3, 1))),
    ])
def test_lists_iotas_and_meshes(written, groups):
  assert _groups(_global(written)) == groups


def test_the_former_field():
  """Programs of XLA before collective_device_list have it."""
  instruction = _collective(_global('{{0,4},{1,5},{2,6},{3,7}}'))
  listed = instruction.collective_device_list.replica_groups
  instruction.replica_groups.MergeFrom(listed)
  instruction.ClearField('collective_device_list')
  assert replica_groups.groups_of(instruction, 'all-reduce', 1, 8) == _PAIRS


@pytest.mark.parametrize(
    'attributes, opcode, groups',
    [
        # Numbers of replica * 4 + partition.
        (_global('{{0,7},{1,2,3,4,5,6}}'), 'all-reduce', ((0, 7),
                                                          (1, 2, 3, 4, 5, 6))),
        # Of replicas, with all partitions.
        ('replica_groups={{0,1}}, channel_id=1', 'all-reduce',
         (tuple(range(8)),)),
        ('replica_groups={{0},{1}}, channel_id=1', 'all-reduce',
         ((0, 1, 2, 3), (4, 5, 6, 7))),
        ('replica_groups={}, channel_id=1', 'all-reduce', (tuple(range(8)),)),
        # Of replicas, each partition by itself.
        ('replica_groups={{0,1}}', 'all-reduce', _PAIRS),
        ('replica_groups={}', 'all-reduce', _PAIRS),
        # Of partitions, each replica by itself.
        ('replica_groups={{0,2},{1,3}}, channel_id=1, dimensions={0}',
         'all-to-all', ((0, 2), (1, 3), (4, 6), (5, 7))),
        ('replica_groups={}, channel_id=1, dimensions={0}', 'all-to-all',
         ((0, 1, 2, 3), (4, 5, 6, 7))),
    ])
def test_what_the_numbers_count(attributes, opcode, groups):
  found = _groups(attributes, replicas=2, partitions=4, opcode=opcode)
  assert {frozenset(group) for group in found
         } == {frozenset(group) for group in groups}


def test_pairs_are_of_partitions_with_a_channel_and_else_of_replicas():
  pairs = 'source_target_pairs={{0,1},{1,0}}'
  with_channel = _collective(f'{pairs}, channel_id=1', 'collective-permute')
  assert replica_groups.pairs_of(with_channel, 2,
                                 4) == ((0, 1), (1, 0), (4, 5), (5, 4))
  without = _collective(pairs, 'collective-permute')
  assert set(replica_groups.pairs_of(without, 2, 4)) == {
      *((p, p + 4) for p in range(4)), *((p + 4, p) for p in range(4))
  }


def test_the_largest_device():
  for attributes, opcode, largest in (
      (_global('{{0,4},{1,5},{2,6},{3,7}}'), 'all-reduce', 7),
      ('replica_groups={}', 'all-reduce', -1),
      ('source_target_pairs={{0,5},{1,0}}, channel_id=1', 'collective-permute',
       5),
  ):
    instruction = _collective(attributes, opcode)
    assert replica_groups.largest_device(instruction) == largest
