"""Reports side by side."""

from __future__ import annotations

import dataclasses

import aot_reports as make
import pytest
from torch_xla.shardy.aot.reporting import comparison
from torch_xla.shardy.aot.reporting.comparison import Comparison, match

SMALL = dataclasses.replace(
    make.TOPOLOGY, name='v5e:2x4', chips=8, devices=8, hosts=2)


def compared() -> Comparison:
  """256 chips beside 8, where one program moves more and one is new."""
  smaller = dataclasses.replace(make.MEMORY, arguments=make.GIB)
  return comparison.compare([
      ('big', make.report()),
      ('small',
       make.report(
           make.start(),
           make.program(memory=smaller, collectives=(make.GATHER,)),
           make.program('extra', called_from=('eval.py:3 in f',), executions=1),
           topology=SMALL)),
  ])


def values(part: comparison.Part) -> dict[str, tuple[str, ...]]:
  return {row.name: row.values for row in part.differing}


def test_what_differs_comes_first() -> None:
  script, start, step = compared().parts
  assert [row.differs for row in script.rows] == sorted(
      (row.differs for row in script.rows), reverse=True)
  assert values(script) == {
      'topology': ('v5e:16x16', 'v5e:2x4'),
      'chips': ('256', '8'),
      'devices': ('256', '8'),
      'hosts': ('64', '2'),
      'programs': ('2', '3 (+50.0 %)'),
      'collective bytes': ('1.50 GiB', '1.50 GiB (-0.0003 %)'),
      'collective count': ('15', '12 (-20.0 %)'),
      'all-reduce bytes over data,model': ('4.00 KiB', '0 bytes (-100.0 %)'),
      'all-reduce count over data,model': ('3', '0 (-100.0 %)'),
  }
  assert start.differing == ()
  assert set(values(step)) == {
      'peak', 'arguments', 'collective bytes', 'collective count',
      'all-reduce bytes over data,model', 'all-reduce count over data,model'
  }


def test_the_text() -> None:
  lines = comparison.text(compared()).split('\n')
  assert lines[0].split() == ['big', 'small']
  assert lines[1:3] == [
      'the script',
      '  topology                                            v5e:16x16  v5e:2x4'
  ]
  assert 'only in small: extra (eval.py:3 in f)' in lines
  same = [line for line in lines if line.startswith('the same in ')]
  assert len(same) == 3
  assert ', cycles 2.50 M, ' in same[0]
  # What no program has is not said to be the same.
  assert 'note' not in same[1] and 'error' not in same[1]
  assert same[1].startswith('the same in program 1, SyncTensorsGraph.9 '
                            '(train.py:12 in <module>): partitioner shardy, ')


def test_equal_reports() -> None:
  twice = comparison.compare([('a', make.awkward()), ('b', make.awkward())])
  assert not any(part.differing for part in twice.parts)
  assert 'nothing differs' in comparison.text(twice)


@pytest.mark.parametrize('other', [make.awkward(), make.empty()])
def test_awkward_reports(other) -> None:
  three = comparison.compare([('a', make.report()), ('b', other),
                              ('c', make.report())])
  for row in (row for part in three.parts for row in part.rows):
    assert len(row.values) == 3
    assert max(map(len, row.values)) < 80
  text = comparison.text(three)
  text.encode('utf-8')
  assert 'only in a, c: SyncTensorsGraph.9' in text


def test_digits_that_are_not_shown_make_a_difference() -> None:
  one_byte = dataclasses.replace(make.MEMORY, code=make.MEMORY.code + 1)
  part = comparison.compare([('a', make.report(make.program())),
                             ('b', make.report(make.program(memory=one_byte)))
                            ]).parts[1]
  assert values(part) == {
      'peak': ('9.50 GiB', '9.50 GiB (+1e-08 %)'),
      'code': ('512.00 MiB', '512.00 MiB (+2e-07 %)'),
  }


def test_another_program_of_the_same_numbers_differs() -> None:
  part = comparison.compare([
      ('a', make.report(make.program())),
      ('b', make.report(make.program(sent='ffff0000ffff'))),
  ]).parts[1]
  assert values(part) == {'program as sent': ('01234567', 'ffff0000')}


def test_time_is_shown_and_not_compared() -> None:
  slow = make.program(seconds=100)
  found = comparison.compare([('a', make.report(make.program())),
                              ('b', make.report(slow, host_memory=5))])
  assert all(not part.differing for part in found.parts)
  assert [row.values for row in found.measured] == [('12.5', '100.0'),
                                                    ('31.2', '31.2'),
                                                    ('3.00 GiB', '5 bytes')]


@pytest.mark.parametrize('first, value, text', [
    (100, 110, '+10.0 %'),
    (100, 0, '-100.0 %'),
    (100, 199, '+99.0 %'),
    (100, 200, 'x2.00'),
    (1, 5000, 'x5,000.00'),
    (1000, 999, '-0.1 %'),
])
def test_changes(first: int, value: int, text: str) -> None:
  assert comparison.change_text(first, value) == text


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
