"""What Shardy must not have, or makes otherwise than is stored: as StableHLO.

The tests of sdy/fallback_test.py, and of upstream's SPMD programs in
v2/to_v2_gspmd_test.py and v2/to_v2_models_test.py, are run anew: each
compares numbers with plain torch's, and most what each device holds. Then the
programs are compared with those of the same test with HLO: the same ones fall
back to GSPMD, for the same reason, and move the same.
"""

from __future__ import annotations

import dataclasses
import re

import fallback_test
import numpy as np
import pytest
from sections import error, Run, Seen, sync
import to_v2_gspmd_test
import to_v2_models_test
import torch
import torch_xla.distributed.spmd as xs
import uneven_test
import vendor

ENVIRONMENT = {}  # Beside the tests that need no child.
pytestmark = pytest.mark.slow

# What is not here is about HLO's text, or the Python of the fallback itself.
_FALLBACKS = vendor.cases_of(
    fallback_test,
    [
        'test_meshes_of_different_device_orders',
        'test_shapes_and_types',
        'test_programs_of_torch_xlas_own',
        'test_updates_in_place',
        'test_odd_axis_names',
        'test_result_with_an_open_dimension',
        'test_random_programs',
        'test_clear_sharding_of_one_of_two',
        'test_data_of_another_rank',
    ],
    # It looks at what is handed on, in HLO.
    without=('_check_fell_back',))
_UNEVEN = vendor.cases_of(
    uneven_test,
    ['test_numbers_and_layouts', 'test_training_with_uneven_weights'],
    without=('_check_all_shardy',))
_UPSTREAM = vendor.cases_of(
    to_v2_gspmd_test, [
        'test_three_axes_and_uneven_dims',
        'test_pending_tensor_is_a_sharding_call',
        'test_annotate_custom_sharding',
        'test_mark_sharding_with_gradients',
        'test_manual_sharding',
        'test_manual_all_reduce',
        'test_reading_and_resharding_programs_of_torch_xla',
    ],
    without=('check_same',)) + vendor.cases_of(
        to_v2_models_test, [
            'test_training',
            'test_fsdpv2_wrapper',
            'test_torch_compile',
            'test_input_sharding_of_the_loader',
            'test_checkpoint_save_and_load',
        ],
        without=('check_same',))


@dataclasses.dataclass(frozen=True)
class _Product:
  """y = x w on a mesh of a device order, all three annotated."""
  specs: tuple
  devices: tuple[int, ...] = tuple(range(8))

  def __call__(self, on: Run) -> Seen:
    mesh = xs.Mesh(np.array(self.devices), (2, 4), ('x', 'y'))
    to_v2_gspmd_test._matmul(mesh, *self.specs)
    return Seen(None)


_SPECS = [
    tuple(arguments[name]
          for name in 'xwy')
    for arguments in vendor.arguments_of(to_v2_gspmd_test, 'test_placements')
]
_ORDERS = [
    tuple(arguments['devices']) for arguments in vendor.arguments_of(
        to_v2_gspmd_test, 'test_permuted_meshes')
]
_PRODUCTS = [
    *map(_Product, [((None, None),) * 3, *_SPECS]),
    *(_Product((('x', None), (None, 'y'), ('x', 'y')), o) for o in _ORDERS),
]


@pytest.fixture(scope='module', name='ended')
def ended_fixture(request: pytest.FixtureRequest):
  return vendor.run_asked(request, 'HLO')


_IN_THE_WHOLE = (
    'test_programs_of_torch_xlas_own-0',
    'test_numbers_and_layouts-3',
)
_SECTIONS = [p.values[0] for p in (*_FALLBACKS, *_UNEVEN, *_UPSTREAM)
            ] + _PRODUCTS
_ALL = [
    pytest.param(
        section,
        id=str(section),
        marks=[pytest.mark.nightly] * (str(section) not in _IN_THE_WHOLE))
    for section in _SECTIONS
]
# An empty result: of HLO's import Shardy makes a replicated one.
_EMPTY = 'test_shapes_and_types-1'
# jaxlib computes nothing of tensors without elements: one is used no more.
_FOLDED = 'test_shapes_and_types-2'


@pytest.mark.parametrize('way', [
    'sdy',
    pytest.param('converted', marks=pytest.mark.nightly),
])
@pytest.mark.parametrize('section', _ALL)
def test_as_with_hlo(way, section, ended):
  one, hlo = ended[way, section], ended['HLO', section]
  assert one.seen == hlo.seen
  if str(section) == _EMPTY:
    assert [p.partitioner for p in hlo.programs if p.asked] == ['gspmd']
    assert [p.partitioner for p in one.programs if p.asked] == ['shardy']
  elif str(section) == _FOLDED and way == 'sdy':
    assert [(p.partitioner, p.asked[:1]) for p in one.programs if p.asked
           ] == [(p.partitioner, p.asked[:1]) for p in hlo.programs if p.asked]
  else:
    assert _annotated(one) == _annotated(hlo)
  for made in one.programs:
    assert made.format == 'mlir' and made.error is None
    if made.partitioner == 'shardy':
      assert (made.form, made.note) == (vendor.form_of(way), '')
    else:
      assert made.form == 'mhlo.sharding'
      assert made.note.endswith(': GSPMD partitions')


def _annotated(ended: vendor.Ended) -> list[tuple]:
  """The programs; of several tensors to blame, each format names its first."""
  return [
      (partitioner, tensors, re.sub(', which .* has:', ', which one has:',
                                    note), collectives)
      for partitioner, tensors, note, collectives in vendor.annotated(ended)
  ]


def tupled(on: Run) -> Seen:
  host = [torch.randn(8, 8) for _ in range(6)]
  device = [t.to('xla') for t in host]
  for i, t in enumerate(device):
    on.mark(t, ('x', 'y') if i % 2 else (None, 'x'), (0, i))
  sync()
  for _ in range(2):
    total = sum(device) @ device[0]
    device[1].add_(1)
    sync()
  return Seen([
      error(total, (sum(host) + 1) @ host[0]) < 1e-4,
      error(device[1], host[1] + 2) < 1e-5
  ])


@pytest.mark.slow
@pytest.mark.parametrize('way', [
    'sdy',
    pytest.param('XLA', marks=pytest.mark.nightly),
    pytest.param('XLA, converted', marks=pytest.mark.nightly),
    pytest.param('converted', marks=pytest.mark.nightly),
])
def test_tupled_parameters(way):
  """Converted from HLO; what is donated of a tuple's elements is not known."""
  way = dataclasses.replace(
      vendor.WAYS[way],
      variables={
          **vendor.WAYS[way].variables, 'XLA_PARAMETER_WRAPPING_THREADSHOLD':
              '2'
      })
  assert vendor.run(way, tupled)[tupled].seen.same == [True, True]
