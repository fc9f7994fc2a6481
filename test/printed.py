"""Long texts that tests expect, written into them by a command.

EXPECTTEST_ACCEPT=1 bash infra/test.sh FILE puts what is printed now in place of
what was: expecttest does that, and `git diff` then shows what has changed.
"""

import re
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


def computations_of(module) -> str:
  """What XLA prints of an HloModuleProto message, below its first line.

  Without layouts, and what a rewrite added is numbered as it comes: n0, n1.
  """
  from jaxlib import _hlo
  text = _hlo.HloModule.from_serialized_hlo_module_proto(
      module.SerializeToString()).to_string()
  text = re.sub(r'(?<=\])\{[\d,]*\}|%', '', text.partition('\n')[2])
  names: dict[str, str] = {}
  return re.sub(r'shardy\.\d+',
                lambda match: names.setdefault(match[0], f'n{len(names)}'),
                text).strip()


def entry_of(module) -> str:
  """The instructions of a message's entry, as `computations_of` has them."""
  text = computations_of(module)
  entry = text[text.index('ENTRY'):]
  return entry[entry.index('\n') + 1:entry.rindex('}')].rstrip()


def operations_of(module) -> str:
  """Likewise, without the parameters, and from the first column on."""
  lines = [line.strip() for line in entry_of(module).splitlines()]
  return '\n'.join(line for line in lines if ' parameter(' not in line)
