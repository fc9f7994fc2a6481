"""Convolutions that XLA can partition: the smallest modules, as text."""

import re

from printed import assert_printed, operations_of
import pytest
from torch_xla.shardy.hlo import messages, protos
from torch_xla.shardy.v2 import convolutions, holding
import v2_programs

hlo = pytest.importorskip('jaxlib._hlo', reason='needs jaxlib: HLO text')

_SPLIT = ', sharding={devices=[2,1,1]<=[2]}'
_NOTE = 'convolutions, so that XLA partitions them right: '


def _after(lhs: str,
           rhs: str,
           result: str,
           attributes: str,
           said: str = _SPLIT,
           of_other: str = '',
           unordered: int = 0) -> tuple[str, str]:
  """What becomes of one convolution, and what is noted of it."""
  text = f'''HloModule m
ENTRY e {{
  x = f32[{lhs}] parameter(0){said}
  w = f32[{rhs}] parameter(1){of_other}
  ROOT y = f32[{result}] convolution(x, w), {attributes}
}}
'''
  module = messages.parse(
      protos.HloModuleProto,
      hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())
  came = module.SerializeToString()
  note = convolutions.make_partitionable(module, unordered)
  is_left = not note or 'left as they were' in note
  assert is_left is (module.SerializeToString() == came)
  return operations_of(module), note


def test_batch_groups_become_products():
  """The weight gradient of a grouped convolution: two places, four groups.

  What is padded below zero is not padded: the slices begin later.
  """
  text, note = _after(
      '8,3,6', '8,3,4', '2,8,2', 'window={size=4 stride=2 pad=-1_1}, '
      'dim_labels=bf0_oi0->bf0, batch_group_count=4')
  assert note == f'{_NOTE}1 written out as products'
  assert_printed(
      text, '''\
n0 = s32[] constant(0)
n1 = f32[] convert(n0)
n2 = f32[8,3,7] pad(x, n1), padding=0_0x0_0x0_1
n3 = f32[4,2,3,7] reshape(n2)
n4 = f32[4,2,3,4] slice(n3), slice={[0:4], [0:2], [0:3], [1:5]}
n5 = f32[4,2,3,4] reshape(w)
n6 = f32[4,2,2] dot(n4, n5), lhs_batch_dims={0}, lhs_contracting_dims={2,3},
    rhs_batch_dims={0}, rhs_contracting_dims={2,3}
n7 = f32[4,2,2,1] reshape(n6)
n8 = f32[4,2,3,4] slice(n3), slice={[0:4], [0:2], [0:3], [3:7]}
n9 = f32[4,2,2] dot(n8, n5), lhs_batch_dims={0}, lhs_contracting_dims={2,3},
    rhs_batch_dims={0}, rhs_contracting_dims={2,3}
n10 = f32[4,2,2,1] reshape(n9)
n11 = f32[4,2,2,2] concatenate(n7, n10), dimensions={3}
n12 = f32[4,2,2,2] reshape(n11)
n13 = f32[2,4,2,2] transpose(n12), dimensions={1,0,2,3}
ROOT y = f32[2,8,2] reshape(n13)''')


def test_what_is_cut_off_is_not_padded_below_zero():
  text, _ = _after(
      '8,3,5', '8,3,3', '2,8,3',
      'window={size=3 pad=1_-1}, dim_labels=bf0_oi0->bf0, batch_group_count=4')
  assert 'f32[8,3,6] pad(x, n1), padding=0_0x0_0x1_0' in text


def test_of_many_places_they_are_held_whole():
  text, note = _after(
      '4,1,200', '4,1,2', '1,4,199',
      'window={size=2}, dim_labels=bf0_oi0->bf0, batch_group_count=4')
  assert note == f'{_NOTE}1 with operands held whole along the window'
  assert text.count('custom_call_target="Sharding", sharding={replicated}') == 3
  assert 'unspecified_dims' not in text and 'batch_group_count=4' in text


def test_others_are_held_whole_along_the_window():
  """Along the second alone: the first is only gone along."""
  text, note = _after(
      '8,5,6,4', '3,1,4,8', '8,5,6,8',
      'window={size=1x3 pad=0_0x1_1}, dim_labels=b01f_10io->b01f',
      _SPLIT.replace('1,1]', '1,1,1]'))
  assert note == f'{_NOTE}1 with operands held whole along the window'
  call = 'custom_call_target="Sharding", sharding={replicated}, ' \
      'backend_config='
  assert text == f'''\
n0 = f32[8,5,6,4] custom-call(x), {call}"unspecified_dims=[0,1,3]"
n1 = f32[3,1,4,8] custom-call(w), {call}"unspecified_dims=[1,2,3]"
n2 = f32[8,5,6,8] convolution(n0, n1), \
window={{size=1x3 pad=0_0x1_1}}, dim_labels=b01f_10io->b01f
ROOT y = f32[8,5,6,8] custom-call(n2), {call}"unspecified_dims=[0,1,3]"'''
  assert holding.open_dims('unspecified_dims=[0,1,3]') == (0, 1, 3)
  assert holding.open_dims('') == ()


def test_a_window_of_one_place_is_not_dilated():
  """XLA partitions it as one of several, and wrong.

  Also where nothing else of the program is to change.
  """
  text = f'''HloModule m
ENTRY e {{
  x = f32[8,12,9] parameter(0){_SPLIT}
  w = f32[6,12,1] parameter(1)
  ROOT y = f32[8,6,9] convolution(x, w), window={{size=1 rhs_dilate=2}}, \
dim_labels=bf0_oi0->bf0
}}
'''
  lowered = v2_programs.emit(
      hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())
  module = messages.parse(protos.HloModuleProto, lowered.program)
  assert module.computations[0].instructions[2].window.dimensions[
      0].window_dilation == 1


_WITHOUT_WINDOW = ['[0,2]', '[2]', '[0,2]']


@pytest.mark.parametrize('groups, size, open_dims', [
    (3, 1, _WITHOUT_WINDOW),
    (8, 1, _WITHOUT_WINDOW),
    (3, 3, ['[0]', '[0]']),
    (4, 3, ['[0,1]'] * 3),
    (8, 3, ['[0,1]'] * 3),
])
def test_features_in_groups(groups, size, open_dims):
  """Whole unless the groups are as many as devices, or a multiple."""
  text, _ = _after(
      '8,24,5', f'24,{24 // groups},{size}', '8,24,5',
      f'window={{size={size} pad={size // 2}_{size // 2}}}, '
      f'dim_labels=bf0_oi0->bf0, feature_group_count={groups}',
      ', sharding={devices=[4,1,1]<=[4]}')
  assert re.findall(r'dims=(\[[\d,]*\])', text) == open_dims


def test_features_in_groups_where_devices_are_in_no_order():
  """Whole on both sides, and so is the window, though of size 1."""
  text, _ = _after(
      '8,16,5',
      '16,1,1',
      '8,16,5',
      'window={size=1}, dim_labels=bf0_oi0->bf0, feature_group_count=16',
      unordered=8)
  n0, n1, _, y = text.splitlines()
  assert 'dims=[0,2]' in n0 and 'dims=[0,2]' in y
  assert 'unspecified_dims' not in n1


@pytest.mark.parametrize('attributes, said', [
    ('window={size=1}, dim_labels=bf0_oi0->bf0', _SPLIT),
    ('window={size=3 pad=1_1}, dim_labels=bf0_oi0->bf0', ''),
    ('window={size=3 pad=1_1}, dim_labels=bf0_oi0->bf0',
     ', sharding={replicated}'),
    ('window={size=3 pad=1_1}, dim_labels=bf0_oi0->bf0', ', sharding={manual}'),
])
def test_what_is_left(attributes, said):
  """Without a window, with nothing split, and what is manual."""
  size = attributes[13]
  assert _after(
      '8,4,5', f'6,4,{size}', '8,6,5', attributes,
      said) == (f'ROOT y = f32[8,6,5] convolution(x, w), {attributes}', '')


def test_a_manual_region_is_left_and_said():
  attributes = 'window={size=3 pad=1_1}, dim_labels=bf0_oi0->bf0'
  text, note = _after(
      '8,4,5', '6,4,3', '8,6,5', attributes, of_other=', sharding={manual}')
  assert text == f'ROOT y = f32[8,6,5] convolution(x, w), {attributes}'
  assert note == (f'{_NOTE}1 left as they were, as a manual region may hold '
                  'them')


def test_nothing_of_one_dimension_size_is_padded_between():
  """Spatial size 0 has no places between its elements."""
  text, _ = _after(
      '4,1,0', '4,1,2', '1,4,1',
      'window={size=2 pad=1_1 lhs_dilate=2}, dim_labels=bf0_oi0->bf0, '
      'batch_group_count=4')
  assert 'f32[4,1,2] pad(' in text


def test_a_sharding_of_its_own_stays():
  text, _ = _after('8,4,5', '6,4,3', '8,6,5',
                   'window={size=3 pad=1_1}, dim_labels=bf0_oi0->bf0' + _SPLIT)
  *_, convolution, _, last = text.splitlines()
  assert 'convolution(' in convolution and 'sharding' not in convolution
  assert last == ('ROOT y = f32[8,6,5] custom-call(n3), '
                  'custom_call_target="Sharding"' + _SPLIT)
