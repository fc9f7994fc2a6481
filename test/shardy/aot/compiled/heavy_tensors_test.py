"""Which tensors weigh most."""

from __future__ import annotations

import compiled_texts
from torch_xla.shardy.aot.compiled.heavy_tensors import heavy_tensors
from torch_xla.shardy.aot.report import HeavyTensor


def _tensors(entry: str, role: str, others: str = '', header: str = ''):
  """(name, bytes) of those of one role."""
  tensors = heavy_tensors(
      compiled_texts.module(entry, others, header), most=100)
  return [(t.name, t.nbytes) for t in tensors if t.role == role]


_THREE = '''  a = f32[10,100]{1,0:T(8,128)} parameter(0)
  b = f32[10,100]{1,0} parameter(1)
  c = s32[]{:T(128)} parameter(2)
'''


def test_arguments_go_by_number():
  tensors = heavy_tensors(
      compiled_texts.module(_THREE + '  ROOT t = () tuple()'))
  assert tensors == (
      HeavyTensor('parameter 0', 'argument', 'f32[10,100]', 8192),
      HeavyTensor('parameter 1', 'argument', 'f32[10,100]', 4000),
      HeavyTensor('parameter 2', 'argument', 's32[]', 512),
  )


def test_parameters_go_by_number_and_tuples_by_array():
  entry = '''  c = s32[8]{0} parameter(1)
  a = (f32[2]{0}, f32[4]{0}) parameter(0)
  ROOT t = () tuple()'''
  tensors = heavy_tensors(compiled_texts.module(entry))
  assert [(t.name, t.nbytes) for t in tensors] == [('parameter 2', 32),
                                                   ('parameter 1', 16),
                                                   ('parameter 0', 8)]


_TWO = '''  p = f32[4]{0} parameter(0)
  q = f32[8]{0} parameter(1)
  a = f32[4]{0} negate(p)
  b = f32[8]{0} negate(q)
  ROOT t = (f32[4]{0}, f32[8]{0}) tuple(a, b)'''


def test_results_in_memory_of_arguments_are_left_out():
  assert _tensors(_TWO, 'result') == [('result 1', 32), ('result 0', 16)]
  header = ', input_output_alias={ {1}: (1, {}, may-alias) }'
  assert _tensors(_TWO, 'result', header=header) == [('result 0', 16)]
  one = '''  p = f32[4]{0} parameter(0)
  ROOT a = f32[4]{0} negate(p)'''
  assert _tensors(one, 'result') == [('result 0', 16)]
  header = ', input_output_alias={ {}: (0, {}, may-alias) }'
  assert _tensors(one, 'result', header=header) == []


def test_what_is_made_and_not_given_is_temporary():
  entry = '''  p = f32[4]{0} parameter(0)
  a = f32[4]{0} negate(p), metadata={op_name="aten__neg"}
  z = f32[]{:S(6)} constant(0)
  b = f32[8]{0} pad(a, z), padding=0_4
  c = f32[8]{0} negate(b)
  d = f32[2,4]{1,0} bitcast(c)
  ROOT t = (f32[2,4]{1,0}, f32[4]{0}) tuple(d, p)'''
  assert _tensors(entry, 'temporary') == [('b', 32), ('a (aten__neg)', 16)]


def test_memory_on_the_chip_is_not_counted():
  entry = '''  p = f32[4]{0} parameter(0)
  a = f32[4]{0:S(1)} negate(p)
  ROOT b = f32[4]{0} negate(a)'''
  assert _tensors(entry, 'temporary') == []


def test_of_a_start_only_what_is_new_counts():
  entry = '''  p = f32[4]{0} parameter(0)
  a = f32[4]{0:S(1)} negate(p)
  s = (f32[4]{0}, f32[4]{0:S(1)}, u32[]{:S(2)}) copy-start(a)
  d = f32[4]{0} copy-done(s)
  g = (f32[4]{0}, f32[8]{0}) all-gather-start(d), channel_id=1, dimensions={0},
    replica_groups=[1,2]<=[2], use_global_device_ids=true
  h = f32[8]{0} all-gather-done(g)
  c = (f32[8]{0}, f32[8]{0}, u32[]{:S(2)}) copy-start(h)
  ROOT r = f32[8]{0} copy-done(c)'''
  assert _tensors(entry, 'temporary') == [('g', 32), ('s', 16)]


def test_what_is_done_in_place_makes_nothing():
  in_place = (', backend_config={"aliasing_operands":'
              '{"lists":[{"indices":[%s]}]}}')
  entry = f'''  p = f32[4]{{0}} parameter(0)
  a = f32[4]{{0}} negate(p)
  b = f32[4]{{0}} exponential(a){in_place % '"0","1"'}
  f = (f32[2]{{0}}, f32[4]{{0}}) fusion(b, p), kind=kLoop,
    calls=fused{in_place % '"0","3"'}
  g = f32[4]{{0}} get-tuple-element(f), index=1
  i = s32[] constant(0)
  h = f32[2]{{0}} get-tuple-element(f), index=0
  u = f32[4]{{0}} dynamic-update-slice(g, h, i)
  ROOT r = f32[1]{{0}} slice(u), slice={{[0:1]}}'''
  others = '''fused {
  x = f32[4]{0} parameter(0)
  y = f32[4]{0} parameter(1)
  n = f32[2]{0} slice(x), slice={[0:2]}
  m = f32[4]{0} add(x, y)
  ROOT t = (f32[2]{0}, f32[4]{0}) tuple(n, m)
}
'''
  assert _tensors(entry, 'temporary', others) == [('a', 16), ('f', 8)]


def test_what_a_loop_carries_counts_before_its_first_trip():
  state = '(s32[]{:S(6)}, f32[8]{0})'
  others = compiled_texts.loop(
      'l', f'''  i = s32[]{{:S(6)}} get-tuple-element(p), index=0
  x = f32[8]{{0}} get-tuple-element(p), index=1
  one = s32[]{{:S(6)}} constant(1)
  j = s32[]{{:S(6)}} add(i, one)
  y = f32[8]{{0}} negate(x)
  z = f32[8]{{0}} exponential(y)
  ROOT t = {state} tuple(j, z)''',
      '''  i = s32[]{:S(6)} get-tuple-element(p), index=0
  n = s32[]{:S(6)} constant(12)
  ROOT c = pred[]{:S(6)} compare(i, n), direction=LT''', state)
  entry = f'''  q = f32[8]{{0}} parameter(0)
  zero = s32[]{{:S(6)}} constant(0)
  start = f32[8]{{0}} copy(q)
  s = {state} tuple(zero, start)
  w = {state} while(s), body=l_body, condition=l_condition
  o = f32[8]{{0}} get-tuple-element(w), index=1
'''
  kept = entry + '  ROOT r = f32[4]{0} slice(o), slice={[0:4]}'
  assert _tensors(kept, 'temporary', others) == [('start', 32), ('y', 32)]
  # Where the loop's state is the result, it lies in the result's memory.
  given = entry + '  ROOT r = (f32[8]{0}) tuple(o)'
  assert _tensors(given, 'temporary', others) == [('y', 32)]


def test_what_is_made_beside_counts_where_it_starts():
  others = '''called {
  q = f32[4]{0} parameter(0)
  ROOT n = f32[2]{0} slice(q), slice={[0:2]}
}
wrapped {
  q = f32[4]{0} parameter(0)
  c = f32[2]{0} call(q), to_apply=called
  ROOT n = f32[2]{0} copy(c)
}
'''
  entry = '''  p = f32[4]{0} parameter(0)
  s = ((f32[4]{0}), f32[2]{0}, u32[]{:S(2)}) async-start(p), calls=wrapped
  d = f32[2]{0} async-done(s)
  ROOT r = f32[1]{0} slice(d), slice={[0:1]}'''
  assert _tensors(entry, 'temporary', others) == [('s', 8)]
