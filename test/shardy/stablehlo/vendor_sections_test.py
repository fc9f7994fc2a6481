"""The sections of the tests of bindings as StableHLO: as with HLO.

See bind/sections.py. All that a section saw is compared: costs, donations,
partitioners, specs, priorities, results' placements, and right numbers; and of
each program with annotated tensors its collectives.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import dynamo_test
import lazy_test
import pytest
from sections import Donations
import tensors_test
import vendor
import weights_test

ENVIRONMENT = {}  # Beside the tests that need no child.
_MODULES = (lazy_test, tensors_test, weights_test, dynamo_test)
# It counts results in HLO; what it says of donations others do, too.
_OF_HLO = {tensors_test.results_and_donations}
_IN_THE_WHOLE = {lazy_test.sgd, lazy_test.intermediates, tensors_test.views}
_SECTIONS = [
    pytest.param(
        section,
        id=f'{module.__name__}-{section.__name__}',
        marks=[pytest.mark.nightly] * (section not in _IN_THE_WHOLE))
    for module in _MODULES
    for section in vendor.sections_of(module)
    if section not in _OF_HLO
]

# `_XLAC` folds constants as it makes StableHLO: a mask is no longer padded, for
# which a collective-permute of it is not needed either.
_FOLDED = {('sdy', tensors_test.views)}
_Ended = dict[tuple[str, vendor.Section], vendor.Ended]


@pytest.fixture(scope='module', name='ended')
def ended_fixture(request: pytest.FixtureRequest) -> _Ended:
  return vendor.run_asked(request, 'HLO')


@pytest.mark.parametrize('way', [
    'sdy',
    pytest.param('converted', marks=pytest.mark.nightly),
])
@pytest.mark.slow
@pytest.mark.parametrize('section', _SECTIONS)
def test_as_with_hlo(way, section, ended):
  one, hlo = ended[way, section], ended['HLO', section]
  # `_XLAC` has no donations in StableHLO.
  donates = way == 'converted'
  assert _compared(one.seen, donates) == _compared(hlo.seen, donates)
  if (way, section) in _FOLDED:
    assert vendor.annotated(one) != vendor.annotated(hlo)
  else:
    assert vendor.annotated(one) == vendor.annotated(hlo)
  for made in one.programs:
    assert made.format == 'mlir'
    # An error is a section's own wish.
    assert made.error or (made.note, made.form) == ('', vendor.form_of(way))


def _compared(seen: Any, with_donations: bool) -> Any:
  """What a section saw, as StableHLO and HLO have it in common.

  A program without annotated tensors is told of in StableHLO, and not in HLO.
  """

  def without(value: Any) -> Any:
    if isinstance(value, Donations):
      return Donations(value if with_donations else 0)
    if isinstance(value, (list, tuple)):
      return type(value)(map(without, value))
    return value

  return dataclasses.replace(
      seen, same=without(seen.same), said=[one for one in seen.said if one[1]])
