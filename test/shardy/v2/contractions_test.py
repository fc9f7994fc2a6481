"""Products over devices in no regular order: the smallest modules, as text."""

import re

from printed import assert_printed, operations_of
import pytest
from torch_xla.shardy.hlo import messages, protos
from torch_xla.shardy.v2 import to_v2

hlo = pytest.importorskip('jaxlib._hlo', reason='needs jaxlib: HLO text')

_NO_ORDER = '[4,2]7,2,4,1,0,5,6,3'
_NOTE = ('products, as the mesh has its devices in no regular order, which XLA '
         'sums wrong: ')


def _after(lhs: str,
           rhs: str,
           result: str,
           attributes: str,
           devices: str = _NO_ORDER,
           opcode: str = 'dot') -> tuple[str, str]:
  """What becomes of one operation, and what is noted of it."""
  text = f'''HloModule m
ENTRY e {{
  x = {lhs} parameter(0)
  w = {rhs} parameter(1)
  m = f32[4,2] parameter(2), sharding={{devices={devices}}}
  ROOT y = {result} {opcode}(x, w), {attributes}
}}
'''
  module = messages.parse(
      protos.HloModuleProto,
      hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())
  came = module.SerializeToString()
  _, note = to_v2.make_partitionable(module)
  assert bool(note) is (module.SerializeToString() != came)
  return operations_of(module), note


def test_what_is_summed_is_in_parts():
  """64 by 8 devices; the batch of 2 stays, and follows the parts."""
  text, note = _after(
      'f32[2,3,64]', 'f32[64,5,2]', 'f32[2,3,5]',
      'lhs_batch_dims={0}, rhs_batch_dims={2}, lhs_contracting_dims={2}, '
      'rhs_contracting_dims={0}')
  assert note == f'{_NOTE}1 in parts, 0 whole along what they sum'
  assert_printed(
      text, '''\
n3 = f32[2,3,8,8] reshape(x)
n4 = f32[2,3,8,8] custom-call(n3), custom_call_target="Sharding",
    sharding={replicated}, backend_config="unspecified_dims=[0,1,2]"
n5 = f32[8,8,5,2] reshape(w)
n6 = f32[8,8,5,2] custom-call(n5), custom_call_target="Sharding",
    sharding={replicated}, backend_config="unspecified_dims=[0,2,3]"
n7 = f32[8,2,3,5] dot(n4, n6), lhs_batch_dims={2,0}, lhs_contracting_dims={3},
    rhs_batch_dims={0,3}, rhs_contracting_dims={1}
n8 = s32[] constant(0)
n9 = f32[] convert(n8)
ROOT y = f32[2,3,5] reduce(n7, n9), dimensions={0}, to_apply=shardy.add.1''')


@pytest.mark.parametrize(
    'dtype, size',
    [
        ('f32', 8),  # Parts would be larger than the operands.
        ('f32', 65),  # There are none that are equal.
        ('f32', 68),  # What is split by eight has uneven parts.
        ('f32', 1),  # Split, the other devices would add their padding.
        ('s32', 64),  # Products of integers have no gradients.
    ])
def test_or_is_whole(dtype, size):
  text, note = _after(f'{dtype}[{size},3]', f'{dtype}[{size},5]',
                      f'{dtype}[3,5]',
                      'lhs_contracting_dims={0}, rhs_contracting_dims={0}')
  assert note == f'{_NOTE}0 in parts, 1 whole along what they sum'
  assert text.count('backend_config="unspecified_dims=[1]"') == 2
  assert text.splitlines()[-1].startswith(f'ROOT y = {dtype}[3,5] dot(n0, n1)')


@pytest.mark.parametrize('size, devices', [
    (64, '[4,2]<=[8]'),
    (64, '[4,2]0,4,1,5,2,6,3,7'),
])
def test_what_is_left(size, devices):
  """In a regular order, as a list or not."""
  attributes = 'lhs_contracting_dims={0}, rhs_contracting_dims={0}'
  assert _after(f'f32[{size},3]', f'f32[{size},5]', 'f32[3,5]', attributes,
                devices) == (f'ROOT y = f32[3,5] dot(x, w), {attributes}', '')


def test_the_gradient_of_a_convolution_is_products():
  """Of the weight: the sum over the batch, each place of it in parts."""
  text, note = _after(
      'f32[64,3,9]',
      'f32[64,16,9]',
      'f32[3,3,16]',
      'window={size=9 pad=1_1}, dim_labels=fb0_io0->0bf',
      opcode='convolution')
  assert note == (
      'convolutions, so that XLA partitions them right: 1 written out as '
      f'products; {_NOTE}3 in parts, 0 whole along what they sum')
  assert text.count(' reduce(') == 3 and 'convolution' not in text


def test_other_convolutions_are_whole_along_their_features():
  text, note = _after(
      'f32[8,3,9]',
      'f32[16,3,3]',
      'f32[8,16,9]',
      'window={size=3 pad=1_1}, dim_labels=bf0_oi0->bf0',
      opcode='convolution')
  assert note == ('convolutions, so that XLA partitions them right: 1 with '
                  'operands held whole along the window')
  assert re.findall(r'dims=\[[\d,]*\]',
                    text) == ['dims=[0]', 'dims=[0]', 'dims=[0,1]']
