"""Which programs of several runs are the same one."""

from __future__ import annotations

import aot_reports as make
from torch_xla.shardy.aot.reporting.comparison import match


def at(*lines: str) -> list:
  """A report with a program asked for at each place, named by its order."""
  return make.report(
      *(make.program(f'p{i}', called_from=(line, 'train.py:90 in main'))
        for i, line in enumerate(lines)))


def names(*reports) -> list[tuple]:
  return [
      tuple(p.name if p else None for p in row) for row in match(list(reports))
  ]


def test_places_match_and_names_do_not() -> None:
  assert names(
      at('a.py:1 in f', 'a.py:9 in g'), at('a.py:9 in g',
                                           'a.py:1 in f')) == [('p0', 'p1'),
                                                               ('p1', 'p0')]


def test_programs_of_one_place_match_in_their_order() -> None:
  twice = at('a.py:1 in f', 'a.py:1 in f')
  assert names(twice, twice, twice) == [('p0',) * 3, ('p1',) * 3]


def test_lines_that_moved_match_within_their_function() -> None:
  assert names(
      at('a.py:1 in f', 'a.py:2 in f'), at('a.py:2 in f',
                                           'a.py:3 in f')) == [('p0', 'p0'),
                                                               ('p1', 'p1')]


def test_one_more_of_a_line_is_the_last() -> None:
  assert names(
      at('a.py:1 in f', 'a.py:1 in f', 'b.py:1 in g'),
      at('a.py:1 in f', 'b.py:1 in g')) == [('p0', 'p0'), ('p1', None),
                                            ('p2', 'p1')]


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
