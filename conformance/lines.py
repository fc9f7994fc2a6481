"""Shares of a run, and the file of what is known to fail, of both suites.

    # comments and empty lines are left out
    operations.data_none/scatter.*   the partitioner aborts on these

A line is a name, or a pattern with * and ?, and behind blanks the reason.
"""

from __future__ import annotations

import argparse
import fnmatch
import re
import zlib


def shard(text: str) -> tuple[int, int]:
  """Parses 'I/N', the I-th of N shares, for argparse."""
  match = re.fullmatch(r'(\d+)/(\d+)', text)
  if not match or not 1 <= int(match[1]) <= int(match[2]):
    raise argparse.ArgumentTypeError(
        f'{text!r} is no shard: give 1/4 for the first of four')
  return int(match[1]), int(match[2])


def is_in_shard(name: str, share: tuple[int, int]) -> bool:
  """Tests whether a name is in a share, which it alone decides."""
  return zlib.crc32(name.encode()) % share[1] == share[0] - 1


def matches(pattern: str, name: str) -> bool:
  """Tests whether a pattern with * and ? matches a name."""
  # Tests that take parameters have brackets in their names.
  return fnmatch.fnmatchcase(name, pattern.replace('[', '[[]'))


def read_expected(path: str) -> list[tuple[int, str, str]]:
  """The lines of a file, each with its number, pattern and reason.

  Raises:
    ValueError: it cannot be read, or a line has no reason.
  """
  try:
    # Some editors begin a file with a mark of its encoding.
    with open(path, encoding='utf-8-sig') as file:
      texts = file.read().splitlines()
  except (OSError, UnicodeDecodeError) as e:
    raise ValueError(str(e)) from e
  lines = []
  for number, text in enumerate(texts, 1):
    pattern, *reason = text.split(maxsplit=1) or ['#']
    if pattern.startswith('#'):
      continue
    if not reason:
      raise ValueError(f'{path}:{number}: {pattern} has no reason behind it')
    lines.append((number, pattern, reason[0]))
  return lines
