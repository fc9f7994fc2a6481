"""Scatters whose indices XLA's partitioner can pad."""

import re

import numpy as np
import processes
import pytest
import torch

ENVIRONMENT = {}  # Beside the tests that need no child.
_ADD = '''add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
'''
_ENTRY = '''
ENTRY e {{
  x = f32[16,4] parameter(0)
  i = {type}[3,1] parameter(1)
  u = f32[3,4] parameter(2)
  ROOT y = f32[16,4] scatter(x, i, u), update_window_dims={{1}},
    inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}},
    index_vector_dim=1, to_apply=add
}}
'''
_SETTINGS = dict(PJRT_DEVICE='CPU', CPU_NUM_DEVICES='8')


@pytest.mark.parametrize('type_name, count', [('s64', 1), ('u32', 1),
                                              ('s32', 0)])
def test_smallest_module(type_name, count):
  hlo = pytest.importorskip('jaxlib._hlo', reason='needs jaxlib: HLO text')
  from torch_xla.shardy.hlo import messages, protos
  from torch_xla.shardy.v2 import scatter_indices
  text = f'HloModule m\n{_ADD}{_ENTRY.format(type=type_name)}'
  module = messages.parse(
      protos.HloModuleProto,
      hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())
  assert scatter_indices.narrow(module) == count
  printed = hlo.HloModule.from_serialized_hlo_module_proto(
      module.SerializeToString()).to_string()
  operands, = re.findall(r'scatter\((.*?)\)', printed)
  _, indices, _ = operands.split(', ')
  assert f'{indices} = s32[3,1]' in printed
  assert len(re.findall(r's32\S* convert\(', printed)) == count
  assert printed.count('minimum(') == count
  assert scatter_indices.narrow(module) == 0


def test_a_single_index_gets_a_second_out_of_bounds():
  hlo = pytest.importorskip('jaxlib._hlo', reason='needs jaxlib: HLO text')
  from torch_xla.shardy.hlo import messages, protos
  from torch_xla.shardy.v2 import scatter_indices
  text = _ENTRY.format(type='s32').replace('[3,', '[1,').replace(
      'to_apply', 'indices_are_sorted=true, to_apply')
  module = messages.parse(
      protos.HloModuleProto,
      hlo.hlo_module_from_text(
          f'HloModule m\n{_ADD}{text}').as_serialized_hlo_module_proto())
  assert scatter_indices.pair_single(module) == 1
  printed = hlo.HloModule.from_serialized_hlo_module_proto(
      module.SerializeToString()).to_string()
  assert re.findall(r' constant\((.*?)\)', printed) == ['-1']
  assert re.findall(r'(\S+)\{.*? concatenate\(',
                    printed) == ['s32[2,1]', 'f32[2,4]']
  assert 'sorted' not in printed
  assert scatter_indices.pair_single(module) == 0


def test_indices_of_several_operands():
  hlo = pytest.importorskip('jaxlib._hlo', reason='needs jaxlib: HLO text')
  from torch_xla.shardy.hlo import array_shape, messages, protos
  from torch_xla.shardy.v2 import scatter_indices
  text = '''HloModule m
add {
  a = f32[] parameter(0)
  b = s64[] parameter(1)
  c = f32[] parameter(2)
  d = s64[] parameter(3)
  ROOT t = (f32[], s64[]) tuple(c, d)
}
ENTRY e {
  x = f32[16,4] parameter(0)
  n = s64[16,4] parameter(1)
  i = s64[3,1] parameter(2)
  u = f32[3,4] parameter(3)
  v = s64[3,4] parameter(4)
  ROOT y = (f32[16,4], s64[16,4]) scatter(x, n, i, u, v),
    update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
}
'''
  module = messages.parse(
      protos.HloModuleProto,
      hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())
  assert scatter_indices.narrow(module) == 1
  by_id = {i.id: i for i in module.computations[-1].instructions}
  shapes = [
      array_shape.arrays_of(by_id[n].shape)[0]
      for n in module.computations[-1].instructions[-1].operand_ids
  ]
  assert [(s.dtype, s.dims) for s in shapes] == [('f32', (16, 4)),
                                                 ('s64', (16, 4)),
                                                 ('s32', (3, 1)),
                                                 ('f32', (3, 4)),
                                                 ('s64', (3, 4))]


def test_parts_are_still_told_apart():
  """So that `rewrite.index_dims` finds what only counts."""
  hlo = pytest.importorskip('jaxlib._hlo', reason='needs jaxlib: HLO text')
  from torch_xla.shardy.hlo import messages, protos
  from torch_xla.shardy.rewrite import index_dims
  from torch_xla.shardy.v2 import scatter_indices
  text = f'''HloModule m
{_ADD}
ENTRY e {{
  x = f32[16,5] parameter(0)
  i = s64[16,8,1] parameter(1)
  u = f32[16,8] parameter(2)
  n = s64[16,8,1] iota(), iota_dimension=0
  j = s64[16,8,2] concatenate(n, i), dimensions={{2}}
  ROOT y = f32[16,5] scatter(x, j, u), update_window_dims={{}},
    inserted_window_dims={{0,1}}, scatter_dims_to_operand_dims={{0,1}},
    index_vector_dim=2, to_apply=add
}}
'''
  module = messages.parse(
      protos.HloModuleProto,
      hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())
  assert scatter_indices.narrow(module) == 1
  opcodes = [i.opcode for i in module.computations[-1].instructions]
  assert opcodes.count('iota') == opcodes.count('concatenate') == 1
  assert index_dims.batch(module) == 1
  scatter = module.computations[-1].instructions[-1]
  assert scatter.scatter_dimension_numbers.input_batching_dims == [0]


def _out_of_bounds(numbers) -> torch.Tensor:
  """Ones added where numbers of 64 bits say, to sixteen zeros."""
  import torch_xla
  import torch_xla.distributed.spmd as xs
  import torch_xla.runtime as xr
  xr.use_spmd()
  t, index = torch.zeros(16).to('xla'), torch.tensor(numbers).to('xla')
  xs.mark_sharding(index, xs.Mesh(np.arange(8), (8,), ('x',)), ('x',))
  torch_xla.sync()
  return t.scatter_add(0, index, torch.ones(len(numbers)).to('xla')).cpu()


@pytest.mark.slow
@pytest.mark.parametrize(
    'more', [{}, {
        'XLA_STABLEHLO_COMPILE': '1'
    }], ids=['hlo', 'stablehlo'])
def test_what_is_out_of_bounds_stays_out(more):
  """Their lower 32 bits are in bounds."""
  numbers = [2**32 + 3, -2**32 + 4, -2**63, 2**40, 5]
  made = processes.call(
      _out_of_bounds, numbers, **_SETTINGS, XLA_USE_SHARDY='1', **more).value
  expected = torch.zeros(16)
  expected[5] = 1
  assert made.equal(expected)


def _scattered(spec) -> torch.Tensor:
  """Rows put where a split index says: three over eight devices."""
  import torch_xla
  import torch_xla.distributed.spmd as xs
  import torch_xla.runtime as xr
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8), (8,), ('x',))
  t, index = torch.zeros(16, 4).to('xla'), torch.tensor([9, 0, 4]).to('xla')
  xs.mark_sharding(index, mesh, spec)
  made = torch.index_put(t, (index,), torch.ones(3, 4).to('xla'))
  torch_xla.sync()
  return made.cpu()


@pytest.mark.slow
def test_an_uneven_index():
  """The official wheel's process ends here."""
  made = processes.call(
      _scattered, ('x',), **_SETTINGS, XLA_SHARDING_V2='1').value
  expected = torch.zeros(16, 4)
  expected[[9, 0, 4]] = 1
  assert made.equal(expected)


@pytest.mark.slow
def test_the_official_wheel_still_ends():
  """If this fails, XLA is mended and `scatter_indices` can go."""
  with pytest.raises(AssertionError, match='IsScalarWithElementType'):
    processes.call(_scattered, ('x',), **_SETTINGS)


@pytest.mark.parametrize('count, split, whole', [
    (10, '[8,1]<=[8]', ['i', 'u', 'v']),
    (10, '[2,1,4]<=[8] last_tile_dim_replicate', []),
    (16, '[8,1]<=[8]', []),
    (1, '[8,1]<=[8]', []),
])
def test_only_what_is_scattered_unevenly_stays_whole(count, split, whole):
  """What comes before the indices is another operand."""
  hlo = pytest.importorskip('jaxlib._hlo', reason='needs jaxlib: HLO text')
  from torch_xla.shardy.hlo import messages, protos
  from torch_xla.shardy.v2 import scatter_indices
  text = f"""HloModule m
add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  ROOT t = (f32[], f32[]) tuple(c, d)
}}
ENTRY e {{
  p = f32[10,6] parameter(0), sharding={{devices={split}}}
  x = f32[10,4] parameter(1)
  i = s32[{count},1] parameter(2)
  u = f32[{count},4] parameter(3)
  v = f32[{count},4] parameter(4)
  ROOT y = (f32[10,4], f32[10,4]) scatter(x, x, i, u, v),
    update_window_dims={{1}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add
}}
"""
  module = messages.parse(
      protos.HloModuleProto,
      hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())
  assert scatter_indices.keep_whole(module) == bool(whole)
  by_id = {i.id: i for i in module.computations[-1].instructions}
  calls = [
      by_id[n]
      for n in module.computations[-1].instructions[-1].operand_ids
      if by_id[n].opcode == 'custom-call'
  ]
  assert [by_id[c.operand_ids[0]].name for c in calls] == whole
  # The windows of updates may be split.
  assert [c.backend_config for c in calls
         ] == [b'', b'unspecified_dims=[1]',
               b'unspecified_dims=[1]'][:len(calls)]


def _largest(axis) -> torch.Tensor:
  """The largest of three below 0, by place, over two of eight devices."""
  import torch_xla
  import torch_xla.distributed.spmd as xs
  import torch_xla.runtime as xr
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))
  t, index, values = (
      torch.tensor(data).to('xla')
      for data in ([-9.] * 4, [1, 2, 3], [-1., -2., -3.]))
  xs.mark_sharding(index, mesh, (axis,))
  torch_xla.sync()
  return t.scatter_reduce(0, index, values, 'amax').cpu()


@pytest.mark.slow
def test_padding_is_not_scattered():
  """The official wheel has a 0 of the padding in the first place."""
  made = processes.call(_largest, 'x', **_SETTINGS, XLA_SHARDING_V2='1').value
  assert made.equal(torch.tensor([-9., -1., -2., -3.]))
