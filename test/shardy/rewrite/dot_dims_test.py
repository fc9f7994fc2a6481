"""Matrix products without merged dimensions: the smallest modules."""

import annotated_modules as modules
from printed import assert_printed, entry_of
import pytest
from torch_xla.shardy.rewrite import dot_dims
from torch_xla.shardy.rewrite.merged_dims import (merge, Merged, product,
                                                  ProductDims)

hlo = pytest.importorskip('jaxlib._hlo', reason='needs jaxlib: HLO text')


def _unmerged(entry: str, count: int = 1) -> str:
  module = modules.module_of(entry)
  assert dot_dims.unmerge(module) == count
  return entry_of(module)


@pytest.mark.parametrize('source, dims, groups', [
    ((8, 4, 5, 16), (32, 5, 16), ((0, 1), (2,), (3,))),
    ((8, 4, 5, 16), (8, 20, 16), ((0,), (1, 2), (3,))),
    ((8, 4), (8, 4), ((0,), (1,))),
    ((1, 8, 1, 4, 1), (8, 4), ((0, 1), (2, 3, 4))),
    ((2, 1, 3), (2, 1, 3), ((0,), (1,), (2,))),
    ((32,), (8, 4), None),
    ((8, 4), (4, 8), None),
    ((8,), (8, 1), None),
    ((8,), (1, 8), None),
    ((0, 4), (0,), None),
    ((1,), (), None),
    ((), (), ()),
])
def test_merge(source, dims, groups):
  assert merge(source, dims) == groups


def test_what_one_side_alone_has_merged_stays():
  """The features of heads, which the weight has in one dimension."""
  x = Merged((8, 5, 4, 16), merge((8, 5, 4, 16), (40, 64)))
  found = product(x, Merged.plain((64, 32)), ProductDims((), (), (1,), (0,)))
  assert found.lhs == Merged((8, 5, 64), ((0, 1), (2,)))
  assert found.dims == ProductDims((), (), (2,), (0,))
  assert found.result == Merged((8, 5, 32), ((0, 1), (2,)))
  heads = Merged((4, 16), merge((4, 16), (64,)))
  assert product(heads, Merged.plain((64, 32)), ProductDims((), (), (0,),
                                                            (0,))) is None


def test_heads():
  """A product with a batch; a transpose of what is merged is in it."""
  assert _unmerged('''
    q = f32[8,4,5,16] parameter(0)
    k = f32[8,4,7,16] parameter(1)
    a = f32[32,5,16] reshape(q)
    b = f32[32,7,16] reshape(k)
    bt = f32[32,16,7] transpose(b), dimensions={0,2,1}
    c = f32[32,5,7] dot(a, bt), lhs_batch_dims={0}, rhs_batch_dims={0},
      lhs_contracting_dims={2}, rhs_contracting_dims={1}
    ROOT d = f32[8,4,5,7] reshape(c)''') == '''\
  q = f32[8,4,5,16] parameter(0)
  k = f32[8,4,7,16] parameter(1)
  ROOT c = f32[8,4,5,7] dot(q, k), lhs_batch_dims={0,1}, \
lhs_contracting_dims={3}, rhs_batch_dims={0,1}, rhs_contracting_dims={3}'''


def test_heads_beside_a_dimension_of_size_1():
  """`_XLAC` makes one reshape of two where it writes StableHLO."""
  assert _unmerged('''
    q = f32[1,8,4,5,16] parameter(0)
    k = f32[8,4,16,7] parameter(1)
    a = f32[32,5,16] reshape(q)
    b = f32[32,16,7] reshape(k)
    ROOT c = f32[32,5,7] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0},
      lhs_contracting_dims={2}, rhs_contracting_dims={1}''') == '''\
  q = f32[1,8,4,5,16] parameter(0)
  n0 = f32[8,4,5,16] reshape(q)
  k = f32[8,4,16,7] parameter(1)
  c = f32[8,4,5,7] dot(n0, k), lhs_batch_dims={0,1}, lhs_contracting_dims={3}, \
rhs_batch_dims={0,1}, rhs_contracting_dims={2}
  ROOT n1 = f32[32,5,7] reshape(c)'''


def test_a_layer_its_bias_and_what_follows():
  text = _unmerged('''
    x = f32[8,5,16] parameter(0)
    w = f32[16,32] parameter(1)
    b = f32[32] parameter(2)
    a = f32[40,16] reshape(x)
    c = f32[40,32] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    e = f32[40,32] broadcast(b), dimensions={1}
    s = f32[40,32] add(c, e)
    t = f32[40,32] tanh(s)
    ROOT d = f32[8,5,4,8] reshape(t)''')
  assert_printed(
      text, '''\
  x = f32[8,5,16] parameter(0)
  w = f32[16,32] parameter(1)
  c = f32[8,5,32] dot(x, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  b = f32[32] parameter(2)
  n0 = f32[8,5,32] broadcast(b), dimensions={2}
  s = f32[8,5,32] add(c, n0)
  t = f32[8,5,32] tanh(s)
  ROOT d = f32[8,5,4,8] reshape(t)''')


def test_the_gradient_of_a_weight():
  """What is summed over is merged on both sides."""
  assert _unmerged('''
    x = f32[8,5,16] parameter(0)
    g = f32[8,5,32] parameter(1)
    a = f32[40,16] reshape(x)
    b = f32[40,32] reshape(g)
    bt = f32[32,40] transpose(b), dimensions={1,0}
    ROOT c = f32[32,16] dot(bt, a), lhs_contracting_dims={1},
      rhs_contracting_dims={0}''') == '''\
  g = f32[8,5,32] parameter(1)
  x = f32[8,5,16] parameter(0)
  ROOT c = f32[32,16] dot(g, x), lhs_contracting_dims={0,1}, \
rhs_contracting_dims={0,1}'''


def test_a_transposed_result_that_is_split():
  """The gradient of keys is transposed in its merged form."""
  assert _unmerged('''
    q = f32[8,4,5,16] parameter(0)
    g = f32[8,4,5,7] parameter(1)
    a = f32[32,5,16] reshape(q)
    b = f32[32,5,7] reshape(g)
    c = f32[32,16,7] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0},
      lhs_contracting_dims={1}, rhs_contracting_dims={1}
    t = f32[32,7,16] transpose(c), dimensions={0,2,1}
    ROOT d = f32[8,4,7,16] reshape(t)''') == '''\
  q = f32[8,4,5,16] parameter(0)
  g = f32[8,4,5,7] parameter(1)
  c = f32[8,4,16,7] dot(q, g), lhs_batch_dims={0,1}, \
lhs_contracting_dims={2}, rhs_batch_dims={0,1}, rhs_contracting_dims={2}
  ROOT n0 = f32[8,4,7,16] transpose(c), dimensions={0,1,3,2}'''


def test_a_merged_result_that_is_used_as_it_is():
  assert _unmerged('''
    x = f32[8,5,16] parameter(0)
    w = f32[16,32] parameter(1)
    a = f32[40,16] reshape(x)
    c = f32[40,32] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    d = f32[8,5,32] reshape(c)
    ROOT t = (f32[40,32], f32[8,5,32]) tuple(c, d)''') == '''\
  x = f32[8,5,16] parameter(0)
  w = f32[16,32] parameter(1)
  c = f32[8,5,32] dot(x, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  n0 = f32[40,32] reshape(c)
  ROOT t = (f32[40,32], f32[8,5,32]) tuple(n0, c)'''


def test_an_expanded_operand():
  """torch expands to the shape that there is before it merges."""
  assert _unmerged('''
    q = f32[2,4,5,6] parameter(0)
    e = f32[2,4,5,6] broadcast(q), dimensions={0,1,2,3}
    a = f32[8,5,6] reshape(e)
    c = f32[8,5,5] dot(a, a), lhs_batch_dims={0}, rhs_batch_dims={0},
      lhs_contracting_dims={2}, rhs_contracting_dims={2}
    ROOT d = f32[2,4,5,5] reshape(c)''') == '''\
  q = f32[2,4,5,6] parameter(0)
  e = f32[2,4,5,6] broadcast(q), dimensions={0,1,2,3}
  ROOT c = f32[2,4,5,5] dot(e, e), lhs_batch_dims={0,1}, \
lhs_contracting_dims={3}, rhs_batch_dims={0,1}, rhs_contracting_dims={3}'''


@pytest.mark.parametrize(
    'entry',
    [
        # A split: no sharding is lost that a merge would lose.
        '''
    x = f32[40,16] parameter(0)
    w = f32[4,4,32] parameter(1)
    v = f32[16,32] reshape(w)
    ROOT c = f32[40,32] dot(x, v), lhs_contracting_dims={1},
      rhs_contracting_dims={0}''',
        # Ones.
        '''
    x = f32[1,40,16] parameter(0)
    w = f32[16,32] parameter(1)
    a = f32[40,16] reshape(x)
    ROOT c = f32[40,32] dot(a, w), lhs_contracting_dims={1},
      rhs_contracting_dims={0}''',
        # The reshape has a sharding of its own.
        '''
    x = f32[8,5,16] parameter(0)
    w = f32[16,32] parameter(1)
    a = f32[40,16] reshape(x), sharding={replicated}
    ROOT c = f32[40,32] dot(a, w), lhs_contracting_dims={1},
      rhs_contracting_dims={0}''',
        # So has the product.
        '''
    x = f32[8,5,16] parameter(0)
    w = f32[16,32] parameter(1)
    a = f32[40,16] reshape(x)
    ROOT c = f32[40,32] dot(a, w), lhs_contracting_dims={1},
      rhs_contracting_dims={0}, sharding={replicated}''',
        # Dimensions that are merged otherwise on the other side.
        '''
    x = f32[8,4,5] parameter(0)
    y = f32[4,8,5] parameter(1)
    a = f32[32,5] reshape(x)
    b = f32[32,5] reshape(y)
    ROOT c = f32[32] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0},
      lhs_contracting_dims={1}, rhs_contracting_dims={1}''',
    ])
def test_what_stays_as_it_is(entry):
  module = modules.module_of(entry)
  before = module.SerializeToString()
  assert dot_dims.unmerge(module) == 0
  assert module.SerializeToString() == before


def test_what_nothing_used_before_stays():
  """A parameter, and what a program has for its side effect."""
  text = _unmerged('''
    x = f32[8,5,16] parameter(0)
    w = f32[16,32] parameter(1)
    unused = f32[3] parameter(2)
    a = f32[40,16] reshape(x)
    o = f32[] constant(0)
    ROOT c = f32[40,32] dot(a, w), lhs_contracting_dims={1},
      rhs_contracting_dims={0}''')
  assert 'unused = f32[3] parameter(2)' in text
  assert 'o = f32[] constant(0)' in text
