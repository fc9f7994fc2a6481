"""The cases, and choosing among them."""

from __future__ import annotations

import pytest
from torch_xla_conformance import capabilities, suite
from torch_xla_conformance.case import ConformanceError, Needs, Tier
from torch_xla_conformance.result import full_name
from torch_xla_conformance.shared.mode import Mode


def test_cases_are_told_apart() -> None:
  names = [case.name for case in suite.cases()]
  assert len(set(names)) == len(names)
  for case in suite.cases():
    assert len(set(case.parts)) == len(case.parts), case.name
    assert case.parts and case.means and '.' in case.name
    assert not set('*?[/ ') & set(case.name)


def test_choosing() -> None:
  chosen = suite.choose(['donation.*', 'transfers.types/BF16'],
                        ['donation.real/refused'])
  assert [(case.name, parts) for case, parts in chosen
         ] == [('transfers.types', ('BF16',)), ('donation.real', ('taken',)),
               ('donation.in_place', ('',)), ('donation.several', ('',)),
               ('donation.steps', ('',))]
  assert [case for case, _ in suite.choose([], [], Tier.NIGHTLY)
         ] == list(suite.cases())


def _names(*arguments) -> list[str]:
  return [
      full_name(case.name, part)
      for case, parts in suite.choose(*arguments)
      for part in parts
  ]


def test_tiers() -> None:
  """A name is of any tier, and a pattern of those that are run."""
  tiers = [set(_names([], [], tier)) for tier in Tier]
  assert tiers[0] < tiers[1] < tiers[2]
  large = 'sizes.transfers/2049 MiB'
  assert large in tiers[2] - tiers[1]
  assert large not in _names(['sizes.*'], [])
  assert _names([large], []) == [large]
  assert {
      name.split('.')[2].split('/')[0]
      for name in tiers[1]
      if name.startswith('operations.')
  } == {'alone', 'data_model', 'both_none'}
  assert not any(
      case.name in suite.nightly() for case, _ in suite.choose([], []))


def test_shards() -> None:
  """Each part is in one of them, whatever else is run."""
  shards = [_names([], [], Tier.WHOLE, (n, 3)) for n in (1, 2, 3)]
  assert sorted(sum(shards, [])) == sorted(_names([], []))
  assert min(map(len, shards)) > 200
  assert set(_names(['sizes.*'], [], Tier.WHOLE, (2, 3))) <= set(shards[1])


@pytest.mark.parametrize('only, skip', [(['nothing.*'], []),
                                        ([], ['donation'])])
def test_a_pattern_that_matches_nothing(only: list[str],
                                        skip: list[str]) -> None:
  with pytest.raises(ConformanceError, match='matches no case; --list shows'):
    suite.choose(only, skip)


def test_what_may_be_expected_to_fail() -> None:
  """Also what is always run, and the end of a process."""
  for pattern in ('capabilities/mlir', 'donation.real/exit', 'start.*'):
    assert suite.names(pattern)
  assert suite.names('capabilities/ml*') == {'capabilities/mlir'}
  assert suite.names('start.twice/exit') == {
      'start.twice/library', 'start.twice/client'
  }
  with pytest.raises(ConformanceError, match='matches no case'):
    suite.choose(['capabilities'], [])
  with pytest.raises(ConformanceError, match='matches no case'):
    suite.names('donation.real/nothing')


def test_names() -> None:
  assert suite.named('donation.real').name == 'donation.real'
  assert suite.named('capabilities') is capabilities.CASE


def test_a_case_that_calls_torch_says_that_it_needs_it() -> None:
  for case in suite.cases():
    code = getattr(case.run, 'func', case.run).__code__
    if 'torch' in code.co_names:  # As context.torch().
      assert case.needs is not Needs.PLUGIN, case.name
    if case.mode is Mode.V2:
      assert case.needs is Needs.MODES, case.name
