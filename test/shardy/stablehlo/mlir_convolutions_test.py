"""Convolutions in StableHLO that XLA can partition: the smallest modules.

What is to become of them is said in `lower/convolutions_test`, of HLO; here
what has batch groups is held whole.
"""

import mlir_modules as modules
import pytest
from torch_xla.shardy.stablehlo import (convolutions, dialects, extract, to_sdy,
                                        to_v2)

pytest.importorskip('jaxlib', reason='needs jaxlib: it reads and prints MLIR')

_SPLIT = '{devices=[2,1,1]<=[2]}'


def _module(said: str = _SPLIT, groups: str = '1', size: int = 3):
  x, w, y = (f'tensor<{dims}xf32>' for dims in ('8x4x5', f'8x4x{size}',
                                                f'{8 // int(groups)}x8x5'))
  padding = (size - 1) // 2
  return modules.main(
      f'%x: {x} {{mhlo.sharding = "{said}"}}, %w: {w}', y, f'''
  %y = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0],
    window = {{pad = [[{padding}, {padding}]]}}
    {{batch_group_count = {groups} : i64, feature_group_count = 1 : i64}}
    : ({x}, {w}) -> {y}
  return %y : {y}''')


@pytest.mark.parametrize('groups, dims', [('1', '[{?}, {?}, {}]'),
                                          ('8', '[{}, {}, {}]')])
def test_they_are_held_whole(groups, dims):
  module = _module(groups=groups)
  note = convolutions.make_partitionable(module)
  assert note == ('convolutions, so that XLA partitions them right: 1 with '
                  'operands held whole along the window')
  to_sdy.lower(module, extract.take(module), 2)
  assert module.operation.verify()
  text = dialects.text(module)
  for value in '%arg0', '%arg1', '%2':
    assert f'sdy.sharding_constraint {value} <@mesh, {dims}>' in text
  assert 'return %3' in text


def test_in_v2():
  module = _module()
  convolutions.make_partitionable(module)
  to_v2.lower(module, extract.take(module))
  assert module.operation.verify()
  assert dialects.text(module).count(
      '{backend_config = "unspecified_dims=[0,1]", '
      'mhlo.sharding = "{replicated}"}') == 3


def test_a_result_is_pinned_all_the_same():
  """The call that holds one leaves its other dimensions open."""
  module = _module()
  convolutions.make_partitionable(module)
  to_v2.pin_results(module)
  last = dialects.text(module).split('return')[0].rstrip().splitlines()[-1]
  assert '@Sharding' in last and 'unspecified_dims' not in last


@pytest.mark.parametrize('said, size', [(_SPLIT, 1), ('{replicated}', 3),
                                        ('{manual}', 3)])
def test_what_is_left(said, size):
  """Without a window, with nothing split, and what is manual."""
  module = _module(said, size=size)
  text = dialects.text(module)
  assert convolutions.make_partitionable(module) == ''
  assert dialects.text(module) == text
