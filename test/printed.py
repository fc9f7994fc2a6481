"""Long texts that tests expect, written into them by a command.

EXPECTTEST_ACCEPT=1 bash infra/test.sh FILE puts what is printed now in place of
what was: expecttest does that, and `git diff` then shows what has changed.
"""

import textwrap

from expecttest import assert_expected_inline

_WIDTH = 80


def assert_printed(text: str, expected: str) -> None:
  """Checks that a text, its long lines folded, is what is expected.

  Args:
    text: what was printed.
    expected: a literal in triple quotes, the only one in its statement.
  """
  lines = [piece for line in text.split('\n') for piece in _folded(line)]
  assert_expected_inline('\n'.join(lines), expected, skip=1)


def _folded(line: str) -> list[str]:
  if len(line) <= _WIDTH:
    return [line]
  indent = ' ' * (len(line) - len(line.lstrip()) + 4)
  return textwrap.wrap(
      line,
      _WIDTH,
      subsequent_indent=indent,
      break_long_words=False,
      break_on_hyphens=False)
