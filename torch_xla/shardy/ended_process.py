"""The report of a process that has ended."""

from __future__ import annotations

import os
import re
import signal
from typing import IO

_LINES = 3
_WIDTH = 300
_TAIL_BYTES = 20_000
# 'E0000 00:00:1795267757.405682    6281 file.cc:77] ' or '2026-11-21
# 13:32:09.005385: F file.cc:234] ': other times and ids at each run.
_LOG_PREFIX = re.compile(
    r'^([IWEF]\d{4} [\d:.]+ +\d+ |[\d-]+ [\d:.]+: [IWEF] )\S+\] ')
# A frame of a stack, as abseil, glibc, LLVM and others print them.
_FRAME = re.compile(r'(@ +0x|#\d+ +0x|(--- )?\S+\(.*\) ?\[0x[0-9a-f]+\]$|'
                    r'backtrace:$)')


def signal_name(number: int) -> str:
  """The name of a signal: 'SIGABRT', or 'signal 40' of those without."""
  try:
    return signal.Signals(number).name
  except ValueError:
    return f'signal {number}'


def how_ended(status: int) -> str:
  """Says how a process ended, from its status, for behind 'the process'."""
  if status < 0:
    return f'was ended by {signal_name(-status)}'
  return f'ended with status {status}'


def last_words(log: IO[bytes]) -> str:
  """The last lines that a process printed into a file, on one.

  Less times, ids and stacks; empty if it printed nothing.
  """
  size = log.seek(0, os.SEEK_END)
  log.seek(max(0, size - _TAIL_BYTES))
  lines = [
      ' '.join(_LOG_PREFIX.sub('', line).split())
      for line in log.read().decode(errors='replace').splitlines()
  ]
  return ' | '.join(
      line if len(line) <= _WIDTH else line[:_WIDTH - 3] + '...'
      for line in [l for l in lines if l and not _FRAME.match(l)][-_LINES:])
