"""Ledgers: what is kept for good, and what while someone records."""

import pytest
from torch_xla.shardy.compile.ledger import Ledger
from torch_xla.shardy.compile.record import ProgramRecord
from torch_xla.shardy.hlo.compile_options import CompileOptions, Partitioner


def _record(name: str = 'm') -> ProgramRecord:
  return ProgramRecord(
      name,
      'hlo',
      CompileOptions(Partitioner.GSPMD, 1, 8),
      1.5,
      note='a note',
      sent=b'sent',
      handed_on=b'handed on',
      options_sent=b'options',
      options_handed_on=b'other options')


def _names(programs) -> list[str]:
  return [program.name for program in programs]


def test_bytes_are_kept_only_for_those_who_record():
  books = Ledger()
  program = _record()
  with books.collect() as recorded:
    books.add(program)
  assert recorded == [program]
  kept, = books.programs()
  assert kept == program.without_programs()
  assert (kept.sent, kept.handed_on, kept.options_sent,
          kept.options_handed_on) == (None,) * 4
  assert kept.note == 'a note' and kept.seconds == 1.5


def test_recordings_nest_and_overlap():
  books = Ledger()
  first, second = books.collect(), books.collect()
  outer = first.__enter__()
  books.add(_record('a'))
  inner = second.__enter__()
  books.add(_record('b'))
  first.__exit__(None, None, None)
  books.add(_record('c'))
  second.__exit__(None, None, None)
  books.add(_record('d'))
  assert _names(outer) == ['a', 'b']
  assert _names(inner) == ['b', 'c']
  assert _names(books.programs()) == ['a', 'b', 'c', 'd']


def test_ending_one_of_two_equal_recordings():
  """All recordings are equal as long as nothing was compiled."""
  books = Ledger()
  with books.collect() as outer:
    with books.collect() as inner:
      pass
    books.add(_record())
  assert len(outer) == 1 and not inner


def test_a_recording_ends_with_an_exception():
  books = Ledger()
  with pytest.raises(KeyError):
    with books.collect() as recorded:
      books.add(_record('a'))
      raise KeyError
  books.add(_record('b'))
  assert _names(recorded) == ['a']


def test_a_use_more_is_counted_where_the_program_is_recorded():
  books, program = Ledger(), _record()
  with books.collect() as before:
    first = books.add(program)
    books.add(_record('other'))
    with books.collect() as since:
      books.add_use(first, program)
      books.add_use(first, program)
  assert [(p.name, p.reused, p.seconds) for p in before] == [('m', 2, 1.5),
                                                             ('other', 0, 1.5)]
  used, = since
  assert (used.reused, used.seconds, used.sent) == (2, 0., program.sent)
  assert [(p.name, p.reused, p.sent) for p in books.programs()
         ] == [('m', 2, None), ('other', 0, None)]
  assert str(used).splitlines()[0].endswith(
      'compiled in 0.00 s, used again 2 time(s)')
