"""The cases, and choosing among them."""

from __future__ import annotations

import pytest
from torch_xla_conformance import capabilities, suite
from torch_xla_conformance.case import Needs
from torch_xla_conformance.errors import ConformanceError
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
               ('donation.in_place', ('',)), ('donation.unasked', ('',)),
               ('donation.steps', ('',))]
  assert [case for case, _ in suite.choose([], [])] == list(suite.cases())


@pytest.mark.parametrize('only, skip', [(['nothing.*'], []),
                                        ([], ['donation'])])
def test_a_pattern_that_matches_nothing(only: list[str],
                                        skip: list[str]) -> None:
  with pytest.raises(ConformanceError, match='matches no case; --list shows'):
    suite.choose(only, skip)


def test_what_may_be_expected_to_fail() -> None:
  """Also what is always run, and the end of a process."""
  for pattern in ('capabilities/mlir', 'donation.real/exit', 'start.*'):
    suite.check_expected(pattern)
  assert suite.names('capabilities/ml*') == {'capabilities/mlir'}
  assert suite.names('start.twice/exit') == {
      'start.twice/library', 'start.twice/client'
  }
  with pytest.raises(ConformanceError, match='matches no case'):
    suite.choose(['capabilities'], [])
  with pytest.raises(ConformanceError, match='matches no case'):
    suite.check_expected('donation.real/nothing')


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
