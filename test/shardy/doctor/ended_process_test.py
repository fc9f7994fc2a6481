"""What is told of a process that has ended."""

from __future__ import annotations

import io

from torch_xla.shardy.ended_process import last_words


def test_the_last_lines_without_times() -> None:
  log = io.BytesIO(
      b'first\n\nE0000 00:00:1795267757.405682    6281 file.cc:77] no memory\n'
      b'2026-11-21 13:32:09.005385: F file.cc:234] it  ends\n' + b'\xff' * 400)
  assert not last_words(io.BytesIO())
  told = last_words(log).split(' | ')
  assert told == ['no memory', 'it ends', '\ufffd' * 297 + '...']


def test_a_stack_does_not_hide_what_was_said():
  log = io.BytesIO(b'''F0000 00:00:1795267757.405682    6281 file.cc:77] no chip
    @     0x55d2a7b38b5a  absl::Fail()
 #0 0x00007f9d59f6dc0a llvm::sys::PrintStackTrace
backtrace:
 --- /lib/libacme.so(+0x3d6dc0a) [0x7f9d59f6dc0a]
 --- /usr/lib/libc.so.6(__libc_start_main+0x85) [0x7f0712c45305]
/usr/lib/libc.so.6(+0x3c050) [0x7f0712c5a050]
''')
  assert last_words(log) == 'no chip'
