"""Programs that do other things have other digests."""

from __future__ import annotations

import compiled_texts
from program_digest import digest
import pytest

_PROGRAM = '''  p = f32[4,8]{1,0} parameter(0), sharding={devices=[2,1]<=[2]}
  n = f32[4,8]{1,0} negate(p), metadata={op_name="a" source_file="t.py"
    source_line=3}
  r = f32[4,8]{1,0} all-reduce(n), channel_id=4, to_apply=add,
    replica_groups={{0,1}}, use_global_device_ids=true
  ROOT c = f32[2]{0} custom-call(r), custom_call_target="f",
    backend_config={"size":"4"}'''


def _digest(entry: str = _PROGRAM, header: str = '') -> str:
  return digest(compiled_texts.module(entry, header=header))


@pytest.mark.parametrize('old, new', [
    ('negate', 'exponential'),
    ('f32[2]{0}', 'f32[3]{0}'),
    ('f32[4,8]{1,0} negate', 'f32[4,8]{0,1} negate'),
    ('f32[4,8]{1,0} negate', 'f32[4,8]{1,0:T(8,128)} negate'),
    ('devices=[2,1]<=[2]', 'devices=[1,2]<=[2]'),
    ('devices=[2,1]<=[2]', 'replicated'),
    ('{{0,1}}', '{{0},{1}}'),
    ('"size":"4"', '"size":"5"'),
    ('target="f"', 'target="g"'),
    ('all-reduce(n)', 'all-reduce(p)'),
])
def test_what_the_program_does_is_in_it(old, new):
  assert _digest(_PROGRAM.replace(old, new)) != _digest()


def test_aliases_are_in_it():
  same = '  ROOT p = f32[4]{0} parameter(0)'
  header = ', input_output_alias={ {}: (0, {}, may-alias) }'
  assert _digest(same, header) != _digest(same)


def test_channels_that_differ_are_told_from_one():
  two = '''  p = f32[4]{0} parameter(0)
  a = f32[4]{0} all-reduce(p), channel_id=4, to_apply=add,
    replica_groups={{0,1}}, use_global_device_ids=true
  ROOT b = f32[4]{0} all-reduce(a), channel_id=5, to_apply=add,
    replica_groups={{0,1}}, use_global_device_ids=true'''
  assert _digest(two) == _digest(two.replace('id=4', 'id=9'))
  assert _digest(two) != _digest(two.replace('id=4', 'id=5'))
