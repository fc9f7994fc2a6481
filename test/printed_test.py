"""Expected texts: long lines are folded, and a command writes them."""

import runpy

from printed import assert_printed
import pytest

_TEST = """\
from printed import assert_printed

assert_printed('head\\n  ' + 'word ' * 20 + '\\n', '''old''')
assert_printed('one\\ntwo', '''\\
one
three''')
"""


def test_what_is_printed_is_written_into_the_test(tmp_path, monkeypatch):
  path = tmp_path / 'made_test.py'
  path.write_text(_TEST)
  monkeypatch.delenv('EXPECTTEST_ACCEPT', raising=False)
  with pytest.raises(AssertionError, match='EXPECTTEST_ACCEPT=1'):
    runpy.run_path(str(path))
  assert path.read_text() == _TEST
  monkeypatch.setenv('EXPECTTEST_ACCEPT', '1')
  runpy.run_path(str(path))
  words = ' '.join(['word'] * 15)
  assert f"'''\\\nhead\n  {words}\n      word " in path.read_text()
  assert "'''\\\none\ntwo'''" in path.read_text()
  monkeypatch.delenv('EXPECTTEST_ACCEPT')
  runpy.run_path(str(path))


def test_a_line_that_differs_is_named():
  with pytest.raises(AssertionError, match='expected line'):
    assert_printed('printed line', '''expected line''')
