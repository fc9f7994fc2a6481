"""What goes between slices, as libtpu writes it."""

import pytest
from torch_xla.shardy.aot.compiled import slices

_TARGET = '_xla_megascale_target'
_KIND = '_xla_megascale_transfer_type'


def _transfer(target: str, kind: str = 'ALL_REDUCE'):
  return slices.transfer_of({_TARGET: target, _KIND: kind})


@pytest.mark.parametrize(
    'target, count, groups',
    [
        ('{1,2}x{0:3}', 2, ((0, 4), (1, 5), (2, 6), (3, 7))),
        ('{1:3}x{0,2}', 3, ((0, 4, 8), (2, 6, 10))),
        ('{{100000,200000},{100001,200001}}', 2, ((0, 4), (1, 5))),
        ('{{100000,300000},{200000,400000}}', 4, ((0, 8), (4, 12))),
        # Each slice has 4 devices here.
        ('{{100003,200000}}', 2, ((3, 4),)),
    ])
def test_groups(target, count, groups):
  transfer = _transfer(target)
  assert transfer.kind == 'all-reduce'
  assert transfer.slices == count
  assert transfer.groups_of(4) == groups


def test_pairs():
  transfer = _transfer('{{100000->200000},{200000->100000}}', 'ONE_TO_ONE')
  assert transfer.kind == 'collective-permute'
  assert transfer.groups_of(4) == ((0, 4), (4, 0))


@pytest.mark.parametrize('attributes', [
    {},
    {
        '_xla_host_transfer_handler_name': 'a_host_callback'
    },
    {
        _TARGET: '{1,2}x{0:3}'
    },
    {
        _KIND: 'ALL_REDUCE'
    },
    {
        _TARGET: 'something else',
        _KIND: 'ALL_REDUCE'
    },
])
def test_other_transfers_are_none(attributes):
  assert slices.transfer_of(attributes) is None
