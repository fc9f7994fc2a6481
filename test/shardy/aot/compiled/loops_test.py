"""Trip counts are found where a program tells them, and only there."""

from typing import Optional

import compiled_texts
import pytest
from torch_xla.shardy.aot.compiled.loops import TripCounts


def _trips(module) -> Optional[int]:
  """The trip count of the first loop of the entry."""
  loop = next(i for i in module.entry.instructions if i.opcode == 'while')
  return TripCounts(module.message).trip_count(module.entry, loop)


def _one_loop(body: str, condition: str, start: str = '0', config: str = ''):
  """A loop over one counter, called i in both, from a constant."""
  i = '  i = s32[] get-tuple-element(p), index=0\n'
  return compiled_texts.module(
      f'''  s = s32[] constant({start})
  t = (s32[]) tuple(s)
  ROOT w = (s32[]) while(t), body=l_body, condition=l_condition{config}''',
      compiled_texts.loop('l', i + body, i + condition))


_UP = '''
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[]) tuple(j)'''
_TO_12 = '''
  n = s32[] constant(12)
  ROOT c = pred[] compare(i, n), direction=LT'''


def _step(instruction: str, constant: int) -> str:
  return f'''
  one = s32[] constant({constant})
  j = s32[] {instruction}
  ROOT t = (s32[]) tuple(j)'''


def _until(compare: str, bound: int) -> str:
  return f'''
  n = s32[] constant({bound})
  ROOT c = pred[] {compare}'''


@pytest.mark.parametrize('body, condition, start, trips', [
    (_UP, _TO_12, '0', 12),
    (_UP, _TO_12, '5', 7),
    (_UP, _TO_12, '12', 0),
    (_UP, _TO_12, '20', 0),
    (_step('add(one, i)', 5), _TO_12, '0', 3),
    (_UP, _until('compare(i, n), direction=LE', 12), '0', 13),
    (_UP, _until('compare(n, i), direction=GT', 12), '0', 12),
    (_UP, _until('compare(i, n), direction=NE', 12), '0', 12),
    (_step('subtract(i, one)', 1), _until('compare(i, n), direction=GT',
                                          2), '9', 7),
    (_step('add(i, one)', -2), _until('compare(i, n), direction=GE',
                                      1), '9', 5),
    (_step('subtract(i, one)', 1), _until('compare(n, i), direction=LE',
                                          1), '9', 9),
])
def test_counters(body, condition, start, trips):
  assert _trips(_one_loop(body, condition, start)) == trips


@pytest.mark.parametrize(
    'body, condition, trips',
    [
        (_step('multiply(i, one)', 2), _TO_12, 4),
        (_step('add(i, i)', 1), _TO_12, 4),
        (_step('subtract(one, i)', 20), _TO_12, 1),
        (_UP, _until('compare(i, n), direction=EQ', 12), 0),
        (_UP, '''
  n = s32[] constant(12)
  m = s32[] constant(7)
  b = pred[] compare(i, n), direction=LT
  d = pred[] compare(i, m), direction=NE
  ROOT c = pred[] and(b, d)''', 6),
        (_UP, '''
  n = s32[] constant(12)
  b = pred[] compare(i, n), direction=GE
  ROOT c = pred[] not(b)''', 11),
        # To the end of 32 bits, where it starts again below.
        (_step('add(i, one)', 2**30), _until('compare(i, n), direction=GT',
                                             0), 2),
        (_step('maximum(i, one)', 12), _TO_12, 1),
    ])
def test_counters_of_other_kinds(body, condition, trips):
  assert _trips(_one_loop(body, condition, '1')) == trips


@pytest.mark.parametrize('body, condition', [
    (_step('subtract(i, one)', 1), _TO_12),
    (_step('add(i, one)', 0), _TO_12),
    (_step('add(i, one)', 5), _until('compare(i, n), direction=NE', 12)),
])
def test_what_ends_too_late_is_not_told(body, condition):
  assert _trips(_one_loop(body, condition, '1')) is None


def test_a_counter_of_64_bits_in_two_halves():
  """libtpu writes the counters of torch_xla's own loops so."""
  state = '(u32[], u32[])'
  body = f'''
  low = u32[] get-tuple-element(p), index=0
  one = u32[] constant(1)
  k = u32[] copy(low)
  j = u32[] add(k, one)
  carry = pred[] compare(j, k), direction=LT
  high = u32[] get-tuple-element(p), index=1
  h = u32[] add(high, one)
  m = u32[] select(carry, h, high)
  ROOT t = {state} tuple(j, m)'''
  condition = '''
  high = u32[] get-tuple-element(p), index=1
  s = s32[] bitcast-convert(high)
  zero = s32[] constant(0)
  below = pred[] compare(s, zero), direction=LT
  none = u32[] constant(0)
  same = pred[] compare(high, none), direction=EQ
  low = u32[] get-tuple-element(p), index=0
  n = u32[] constant(6)
  less = pred[] compare(low, n), direction=LT
  both = pred[] and(same, less)
  ROOT c = pred[] or(below, both)'''
  for low, high, trips in (('0', '0', 6), ('4294967290', '4294967295', 12),
                           ('0', '1', 0)):
    module = compiled_texts.module(
        f'''
  a = u32[] constant({low})
  b = u32[] constant({high})
  t = {state} tuple(a, b)
  ROOT w = {state} while(t), body=l_body, condition=l_condition''',
        compiled_texts.loop('l', body, condition, state))
    assert _trips(module) == trips


def test_what_xla_wrote_down_counts():
  config = ', backend_config={"known_trip_count":{"n":"34"}}'
  assert _trips(_one_loop(_UP, _TO_12, config=config)) == 34


def test_a_counter_goes_through_copies():
  body = '''
  k = s32[] copy(i)
  one = s32[] constant(1)
  j = s32[] add(k, one)
  b = s32[] bitcast(j)
  ROOT t = (s32[]) tuple(b)'''
  assert _trips(_one_loop(body, _TO_12)) == 12


# A counter and its bound.
_TWO = '(s32[], s32[])'
_TO_CARRIED = '''
  i = s32[] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=1
  ROOT c = pred[] compare(i, n), direction=LT'''


def _carried(result: str, entry: str):
  body = f'''
  i = s32[] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  m = s32[] add(n, one)
  ROOT t = {_TWO} tuple({result})'''
  return compiled_texts.module(
      f'''{entry}
  t = {_TWO} tuple(zero, bound)
  ROOT w = {_TWO} while(t), body=l_body, condition=l_condition''',
      compiled_texts.loop('l', body, _TO_CARRIED, _TWO))


_ZERO = '  zero = s32[] constant(0)\n'


def test_a_bound_may_be_carried():
  constant = _ZERO + '  bound = s32[] constant(7)'
  assert _trips(_carried('j, n', constant)) == 7
  assert _trips(_carried('j, m', constant)) is None


def test_a_start_that_is_given_is_not_told():
  entry = '  zero = s32[] parameter(0)\n  bound = s32[] constant(7)'
  assert _trips(_carried('j, n', entry)) is None


@pytest.mark.parametrize('handed_on, trips', [('n', 3), ('m', None)])
def test_a_bound_may_come_through_an_outer_loop(handed_on, trips):
  inner = compiled_texts.loop(
      'inner', f'''
  i = s32[] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = {_TWO} tuple(j, n)''', _TO_CARRIED, _TWO)
  outer = compiled_texts.loop(
      'outer', f'''
  i = s32[] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=1
  zero = s32[] constant(0)
  one = s32[] constant(1)
  m = s32[] add(n, one)
  s = {_TWO} tuple(zero, n)
  w = {_TWO} while(s), body=inner_body, condition=inner_condition
  j = s32[] add(i, one)
  ROOT t = {_TWO} tuple(j, {handed_on})''', _TO_CARRIED, _TWO)
  module = compiled_texts.module(
      f'''
  zero = s32[] constant(0)
  bound = s32[] constant(3)
  t = {_TWO} tuple(zero, bound)
  ROOT w = {_TWO} while(t), body=outer_body, condition=outer_condition''',
      inner + outer)
  body = next(c for c in module.message.computations if c.name == 'outer_body')
  loop = next(i for i in body.instructions if i.opcode == 'while')
  assert TripCounts(module.message).trip_count(body, loop) == trips
