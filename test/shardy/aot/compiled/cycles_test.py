"""The compiler's estimates are summed, and what has none is told."""

from __future__ import annotations

import compiled_texts
import pytest
from torch_xla.shardy.aot.compiled.cycles import cycles
from torch_xla.shardy.aot.report import Cycles

_PARAMETER = '  p = f32[4]{0} parameter(0)\n'
_REPLICAS = ('channel_id=1, to_apply=add, replica_groups=[1,8]<=[8], '
             'use_global_device_ids=true')


def _estimated(count) -> str:
  """An estimate as libtpu writes it: numbers are strings."""
  return (f', backend_config={{"flag_configs":[],"window_config":'
          f'{{"estimated_cycles":"{count}","iteration_bounds":["1"]}}}}')


def _cycles(entry: str, others: str = ''):
  return cycles(compiled_texts.module(_PARAMETER + entry, others))


def test_estimates_are_summed():
  entry = (f'  a = f32[4]{{0}} negate(p){_estimated(100)}\n'
           f'  ROOT b = f32[4]{{0}} exponential(a){_estimated(30)}')
  assert _cycles(entry) == Cycles(130, 2)


def test_loops_count_by_their_trips():
  work = f'''  f = f32[] constant(1)
  x = f32[4]{{0}} broadcast(f), dimensions={{}}{_estimated(7)}'''
  others = compiled_texts.counted('inner', 3, work) + compiled_texts.counted(
      'outer', 5, compiled_texts.run('inner'))
  entry = f'{compiled_texts.run("outer")}\n  ROOT r = f32[4]{{0}} copy(p)'
  assert _cycles(entry, others) == Cycles(105, 1, (('copy', 1),))


def test_a_loop_that_does_not_tell_counts_once_and_is_told():
  work = f'''  f = f32[] constant(1)
  x = f32[4]{{0}} broadcast(f), dimensions={{}}{_estimated(7)}'''
  entry = (f'  n = s32[] parameter(1)\n{compiled_texts.run("l", "n")}\n'
           '  ROOT g = s32[] get-tuple-element(out_l), index=0')
  assert _cycles(entry, compiled_texts.counted('l', 3,
                                               work)) == Cycles(7, 1, (), 1)


def test_what_is_fused_does_not_count_again():
  others = (f'fused {{\n  q = f32[4]{{0}} parameter(0)\n'
            f'  ROOT n = f32[4]{{0}} negate(q){_estimated(9)}\n}}\n')
  fusion = 'ROOT f = f32[4]{0} fusion(p), kind=kLoop, calls=fused'
  assert _cycles(f'  {fusion}{_estimated(50)}', others) == Cycles(50, 1)


def test_what_has_no_estimate_is_left_out():
  none = Cycles(0, 0, (('exponential', 1),))
  assert _cycles('  ROOT b = f32[4]{0} exponential(p)') == none
  for told in (0, -1, 2**63 - 1):
    assert _cycles(
        f'  ROOT b = f32[4]{{0}} exponential(p){_estimated(told)}') == none
  assert _cycles('  ROOT b = f32[4]{0} exponential(p), '
                 'backend_config={"window_config":{}}') == none


@pytest.mark.parametrize(
    'instructions, left_out',
    [
        ('c = f32[4]{0} copy(p)', ('copy',)),
        ('c = f32[4]{0} copy(p)\n  d = f32[4]{0} copy(c)', ('copy', 'copy')),
        ('''s = (f32[4]{0}, f32[4]{0}, u32[]) copy-start(p)
  d = f32[4]{0} copy-done(s)''', ('copy',)),
        (f'r = f32[4]{{0}} all-reduce(p), {_REPLICAS}', ('all-reduce',)),
        # Even of a single number: it waits for all.
        (f'''z = f32[] constant(0)
  r = f32[] all-reduce(z), {_REPLICAS}''', ('all-reduce',)),
        ('c = f32[4]{0} custom-call(p), custom_call_target="Slow"',
         ('custom-call Slow',)),
        ('c = f32[4]{0} custom-call(), custom_call_target="AllocateBuffer"',
         ()),
        # Names and views.
        ('''t = (f32[4]{0}) tuple(p)
  g = f32[4]{0} get-tuple-element(t), index=0
  b = f32[2,2]{1,0} bitcast(g)
  i = u32[] partition-id()''', ()),
        # Of single numbers.
        ('''z = s32[] constant(0)
  o = s32[1]{0} constant({1})
  y = s32[] add(z, z)
  x = s32[1]{0} negate(o)''', ()),
    ])
def test_what_is_left_out(instructions, left_out):
  entry = f'  {instructions}\n  ROOT n = f32[4]{{0}} negate(p){_estimated(1)}'
  found = _cycles(entry)
  assert (found.total, found.operations) == (1, 1)
  assert found.left_out == tuple(
      (name, left_out.count(name)) for name in sorted(set(left_out)))


@pytest.mark.parametrize('inside, name', [
    ('scatter(a, i, u), update_window_dims={}, inserted_window_dims={0}, '
     'scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add',
     'scatter'),
    ('negate(a)', 'fusion'),
    (f'all-reduce(a), {_REPLICAS}', 'all-reduce'),
])
def test_a_fusion_without_an_estimate_is_told_by_what_is_in_it(inside, name):
  others = f'''fused {{
  q = f32[4]{{0}} parameter(0)
  a = f32[4]{{0}} negate(q)
  i = s32[2,1]{{1,0}} constant({{{{0}},{{1}}}})
  u = f32[2]{{0}} constant({{1,2}})
  ROOT r = f32[4]{{0}} {inside}
}}
'''
  found = _cycles(
      f'''  f = f32[4]{{0}} fusion(p), kind=kCustom, calls=fused
  ROOT n = f32[4]{{0}} negate(f){_estimated(1)}''', others)
  assert found.left_out == ((name, 1),)


def test_a_collective_in_a_fusion_with_an_estimate_is_left_out():
  """The estimate is of what is computed meanwhile."""
  others = f'''fused {{
  q = f32[4]{{0}} parameter(0)
  n = f32[4]{{0}} negate(q)
  ROOT r = f32[4]{{0}} all-reduce(n), {_REPLICAS}
}}
'''
  found = _cycles(
      f'  ROOT f = f32[4]{{0}} fusion(p), kind=kOutput, calls=fused'
      f'{_estimated(40)}', others)
  assert found == Cycles(40, 1, (('all-reduce', 1),))


def test_the_most_frequent_come_first():
  found = _cycles(f'''  a = f32[4]{{0}} tanh(p)
  b = f32[4]{{0}} sqrt(a)
  c = f32[4]{{0}} sqrt(b)
  d = f32[4]{{0}} exponential(c)
  ROOT n = f32[4]{{0}} negate(d){_estimated(1)}''')
  assert found.left_out == (('sqrt', 2), ('exponential', 1), ('tanh', 1))
