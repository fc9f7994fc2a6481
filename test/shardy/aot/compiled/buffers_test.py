"""Bytes of arrays with the padding of their layouts."""

import compiled_texts
import pytest
from torch_xla.shardy.aot.compiled.buffers import Buffer, buffers_of


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
