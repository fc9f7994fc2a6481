"""What is told of a process that has ended."""

from __future__ import annotations

import io

from torch_xla.shardy.ended_process import last_words, signal_name


def test_signals() -> None:
  assert [signal_name(n) for n in (6, 11, 40)
         ] == ['SIGABRT', 'SIGSEGV', 'signal 40']


def test_the_last_lines_without_times() -> None:
  log = io.BytesIO(
      b'first\n\nE0000 00:00:1795267757.405682    6281 file.cc:77] no memory\n'
      b'2026-11-21 13:32:09.005385: F file.cc:234] it  ends\n' + b'\xff' * 400)
  assert not last_words(io.BytesIO())
  told = last_words(log).split(' | ')
  assert told == ['no memory', 'it ends', '\ufffd' * 297 + '...']
