"""A split dimension through a reshape: kept where a split can say it."""

import numpy as np
import programs
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
from torch_xla.shardy.sharding.text import parse_sharding

ENVIRONMENT = programs.ENVIRONMENT


@pytest.mark.parametrize(
    'shape, spec, reshaped, tiles',
    [
        ((4, 8, 16), ('x', None, None), (32, 16), (2, 1)),
        ((32, 16), ('x', None), (4, 8, 16), (2, 1, 1)),
        # Eight parts of 32 rows are two of each of four.
        ((32, 16), (('x', 'y'), None), (4, 8, 16), (4, 2, 1)),
        ((4, 32), (None, 'y'), (4, 2, 16), (1, 2, 2)),
        # Half of each of four is no part of 32 rows: they are gathered.
        ((4, 8, 16), (None, 'x', None), (32, 16), None),
        ((4, 24), (None, 'y'), (4, 3, 8), None),
    ])
def test_a_split_dimension_through_a_reshape(shape, spec, reshaped, tiles,
                                             mesh):
  t = torch.arange(float(np.prod(shape))).reshape(shape)
  marked = t.to('xla')
  xs.mark_sharding(marked, mesh, spec)
  torch_xla.sync()
  out = (marked * 2).reshape(reshaped)
  with torch_xla.shardy.record() as seen:
    torch_xla.sync()
  placed = parse_sharding(torch_xla._XLAC._get_xla_sharding_spec(out))
  assert (placed.tiles and placed.tiles.dims[:len(reshaped)]) == tiles
  assert [c.kind for c in seen[0].collectives
         ] == ([] if tiles else ['all-gather'])
  assert torch.equal(out.cpu(), (t * 2).reshape(reshaped))
