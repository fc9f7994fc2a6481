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
