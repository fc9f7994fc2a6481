"""Which tensors weigh most, with the padding of their layouts."""

from __future__ import annotations

import compiled_texts
import pytest
from torch_xla.shardy.aot.compiled.heavy_tensors import (Buffer, buffers_of,
                                                         heavy_tensors)
from torch_xla.shardy.aot.report import HeavyTensor


def _tensors(entry: str, role: str, others: str = '', header: str = ''):
  """(name without its origin, bytes) of those of one role."""
  tensors = heavy_tensors(
      compiled_texts.module(entry, others, header), most=100)
  return [
      (t.name.partition(' (')[0], t.nbytes) for t in tensors if t.role == role
  ]


def test_what_has_no_name_says_why():
  tensors = heavy_tensors(
      compiled_texts.module('''  p = f32[4]{0} parameter(0)
  a = f32[4]{0} negate(p)
  ROOT b = f32[4]{0} copy(a)'''), {1: 'w'})
  assert [t.name for t in tensors] == [
      'parameter 0 (nothing with a name holds it)',
      'result 0 (negate, which the compiler does not name)'
  ]


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


def _buffers(shape: str) -> tuple[Buffer, ...]:
  module = compiled_texts.module(f'  ROOT p = {shape} parameter(0)')
  return buffers_of(module.entry.instructions[0].shape)


@pytest.mark.parametrize(
    'shape, nbytes',
    [
        ('f32[10,100]{1,0}', 4000),
        ('f32[10,100]{1,0:T(8,128)}', 16 * 128 * 4),
        ('f32[10,100]{0,1:T(8,128)}', 104 * 128 * 4),
        ('bf16[1000,100]{0,1:T(8,128)(2,1)}', 104 * 1024 * 2),
        ('bf16[1000,100]{1,0:T(8,128)(2,1)}', 1000 * 128 * 2),
        # Three dimensions: the outermost is not padded.
        ('s8[7,3,5]{0,1,2:T(4,128)(4,1)}', 5 * 4 * 128),
        ('bf16[8,2,1024]{2,1,0:T(2,128)(2,1)}', 8 * 2 * 1024 * 2),
        # Less dimensions than the tile has, or none.
        ('f32[12]{0:T(256)}', 256 * 4),
        ('bf16[300]{0:T(256)(128)(2,1)}', 512 * 2),
        ('s32[]{:T(128)}', 512),
        ('pred[]{:T(512)}', 512),
        # The second tile does not divide the first.
        ('f32[4,8]{1,0:T(4,8)(3,8)}', 6 * 8 * 4),
        ('f32[0,128]{1,0:T(8,128)}', 0),
        ('f8e4m3b11fnuz[64]{0}', 64),
        # Two in a byte.
        ('s4[64,128]{1,0:T(8,128)E(4)}', 64 * 128 // 2),
        ('s4[64,128]{1,0}', 64 * 128),
        # A multiple of so many elements.
        ('f32[10,100]{1,0:L(512)}', 1024 * 4),
        # The first dimension is counted with the second.
        ('f32[3,5,128]{2,1,0:T(*,8,128)}', 16 * 128 * 4),
    ])
def test_bytes(shape, nbytes):
  buffer, = _buffers(shape)
  assert buffer.nbytes == nbytes
  assert buffer.shape == shape[:shape.index('{')]


def test_tuples_are_flattened():
  assert _buffers('(f32[2]{0}, (s8[3]{0}, (f32[]{:S(1)})), ())') == (
      Buffer((0,), 'f32[2]', 8),
      Buffer((1, 0), 's8[3]', 3),
      Buffer((1, 1, 0), 'f32[]', 4),
  )


def test_tokens_take_no_memory():
  assert _buffers('(token[], f32[2]{0})') == (Buffer((1,), 'f32[2]', 8),)


def test_damaged_shapes_are_refused():
  with pytest.raises(ValueError, match='not a valid ShapeProto'):
    buffers_of(b'\xff')
