"""Gathers and scatters that say which dimensions they go along."""

import annotated_modules as modules
from printed import entry_of
import pytest
from torch_xla.shardy.rewrite import index_dims
from torch_xla.shardy.rewrite.index_dims import batched, IndexDims

hlo = pytest.importorskip('jaxlib._hlo', reason='needs jaxlib: HLO text')
_ADD = '''add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
'''


def _batched(entry: str, others: str = '') -> str:
  module = modules.module_of(entry, others)
  assert index_dims.batch(module) == 1
  return entry_of(module)


def test_gather():
  assert _batched('''
    x = f32[16,5] parameter(0)
    i = s64[16,8] parameter(1)
    r = s64[16,8,1] reshape(i)
    n = s64[16,8,1] iota(), iota_dimension=0
    j = s64[16,8,2] concatenate(n, r), dimensions={2}
    ROOT y = f32[16,8] gather(x, j), offset_dims={},
      collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=2,
      slice_sizes={1,1}''') == '''\
  x = f32[16,5] parameter(0)
  i = s64[16,8] parameter(1)
  r = s64[16,8,1] reshape(i)
  ROOT y = f32[16,8] gather(x, r), offset_dims={}, collapsed_slice_dims={1}, \
start_index_map={1}, operand_batching_dims={0}, \
start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1}'''


def test_scatter():
  """Two dimensions to go along, the operand's order rising."""
  assert _batched(
      '''
    x = f32[4,16,5] parameter(0)
    i = s64[4,16,8,1] parameter(1)
    u = f32[4,16,8] parameter(2)
    m = s64[4,16,8,1] iota(), iota_dimension=0
    n = s64[4,16,8,1] iota(), iota_dimension=1
    j = s64[4,16,8,3] concatenate(m, n, i), dimensions={3}
    ROOT y = f32[4,16,5] scatter(x, j, u), update_window_dims={},
      inserted_window_dims={0,1,2}, scatter_dims_to_operand_dims={0,1,2},
      index_vector_dim=3, to_apply=add''', _ADD) == '''\
  x = f32[4,16,5] parameter(0)
  i = s64[4,16,8,1] parameter(1)
  u = f32[4,16,8] parameter(2)
  ROOT y = f32[4,16,5] scatter(x, i, u), update_window_dims={}, \
inserted_window_dims={2}, scatter_dims_to_operand_dims={2}, \
input_batching_dims={0,1}, scatter_indices_batching_dims={0,1}, \
index_vector_dim=3, to_apply=add'''


def test_two_indices_are_left():
  assert _batched('''
    x = f32[7,16,5] parameter(0)
    i = s64[8,16,1] parameter(1)
    n = s64[8,16,1] iota(), iota_dimension=1
    j = s64[8,16,3] concatenate(i, n, i), dimensions={2}
    ROOT y = f32[8,16] gather(x, j), offset_dims={},
      collapsed_slice_dims={0,1,2}, start_index_map={0,1,2}, index_vector_dim=2,
      slice_sizes={1,1,1}''') == '''\
  x = f32[7,16,5] parameter(0)
  i = s64[8,16,1] parameter(1)
  n0 = s64[8,16,2] concatenate(i, i), dimensions={2}
  ROOT y = f32[8,16] gather(x, n0), offset_dims={}, \
collapsed_slice_dims={0,2}, start_index_map={0,2}, operand_batching_dims={1}, \
start_indices_batching_dims={1}, index_vector_dim=2, slice_sizes={1,1,1}'''


@pytest.mark.parametrize(
    'counted, operand, indices', [
        ([0, None], (16, 5), (8, 8, 2)),
        ([None, None], (16, 5), (16, 8, 2)),
        ([0, 1], (16, 8), (16, 8, 2)),
        ([2, None], (2, 5), (16, 8, 2)),
    ],
    ids=[
        'fewer indices than there are rows', 'nothing counts',
        'nothing else is left', 'the parts of an index are counted'
    ])
def test_what_stays_as_it_is(counted, operand, indices):
  dims = IndexDims((0, 1), (0, 1), 2)
  assert batched(dims, counted, operand, indices) is None


def test_a_window_is_not_gone_along():
  """A dimension that is looked up in slices is no dimension of the indices."""
  assert batched(IndexDims((1,), (0, 1), 2), [0, None], (16, 5),
                 (16, 8, 2)) is None


def test_one_dimension_of_the_indices_for_one_of_the_operand():
  found = batched(
      IndexDims((0, 1, 2), (0, 1, 2), 1), [0, 0, None], (4, 4, 5), (4, 3))
  assert found == (IndexDims((1, 2), (1, 2), 1, (0,), (0,)), [1, 2])


def test_pairs_are_sorted_by_the_operand():
  found = batched(
      IndexDims((0, 1, 2), (2, 1, 0), 2), [0, 1, None], (7, 3, 4), (4, 3, 3))
  assert found == (IndexDims((0,), (0,), 2, (1, 2), (1, 0)), [2])
