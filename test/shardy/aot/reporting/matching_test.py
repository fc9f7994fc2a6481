"""Which programs of several runs are the same one."""

from __future__ import annotations

import aot_reports as make
import pytest
from torch_xla.shardy.aot.reporting.comparison import match


def at(*lines: str) -> list:
  """A report with a program asked for at each place, named by its order."""
  return make.report(
      *(make.program(f'p{i}', called_from=(line, 'train.py:90 in main'))
        for i, line in enumerate(lines)))


_F1, _F2, _G = 'a.py:1 in f', 'a.py:2 in f', 'b.py:1 in g'


@pytest.mark.parametrize(
    'places, matched',
    [
        # By place, not by name.
        ([(_F1, _G), (_G, _F1)], [('p0', 'p1'), ('p1', 'p0')]),
        # Those of one place in their order.
        ([(_F1, _F1)] * 3, [('p0',) * 3, ('p1',) * 3]),
        # Lines may have moved within their function.
        ([(_F1, _F2), (_F2, 'a.py:3 in f')], [('p0', 'p0'), ('p1', 'p1')]),
        # One more of a line is the last.
        ([(_F1, _F1, _G), (_F1, _G)], [('p0', 'p0'), ('p1', None),
                                       ('p2', 'p1')]),
    ])
def test_programs_match(places, matched) -> None:
  rows = match([at(*lines) for lines in places])
  assert [tuple(p.name if p else None for p in row) for row in rows] == matched


def test_callers_tell_programs_of_one_line_apart() -> None:
  train = make.program('train', called_from=('m.py:1 in call', 'a.py:1 in fit'))
  test = make.program('test', called_from=('m.py:1 in call', 'a.py:5 in eval'))
  rows = match([make.report(train, test), make.report(test, train)])
  assert rows == ((train, train), (test, test))


def test_programs_without_a_place_match_in_their_order() -> None:
  a, b = (make.program(name, called_from=()) for name in 'ab')
  assert match([make.report(a), make.report(b)]) == ((a, b),)


def test_a_report_matches_itself_and_an_empty_one_nothing() -> None:
  report = make.awkward()
  assert match([report, report]) == tuple((p, p) for p in report.programs)
  assert match([report, make.empty()]) == tuple(
      (p, None) for p in report.programs)
  assert match([make.empty(), make.empty()]) == ()
