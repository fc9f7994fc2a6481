"""What grows with steps is told from what an allocator keeps."""

from __future__ import annotations

import ctypes
import gc

import pytest
from torch_xla_conformance.pjrt import footprint

_STEPS = 3_000
_SIZE = 200


def test_some_bytes_a_step() -> None:
  process = ctypes.CDLL(None)
  if not hasattr(process, 'mallinfo2'):
    pytest.skip('this C library does not tell what its heap holds')
  allocate = process.malloc

  def step(number: int) -> None:
    allocate(ctypes.c_size_t(_SIZE))

  gc.freeze()  # What this process holds already is not looked through.
  leak = footprint.growth(None, _STEPS, step).leaks()
  gc.unfreeze()
  assert leak.startswith('the heap grew by ')
  assert leak.endswith(f'{_STEPS:,} steps each, 208 a step')


def test_what_grows_once_is_no_leak() -> None:
  """Caches fill up; the rest is seen by the process's pages alone."""
  growth = footprint.Growth(1000, {
      'heap': (0, 1 << 20),
      'resident': (1 << 20, 2 << 20),
      'device': (1 << 30, 0)
  })
  assert growth.leaks() == (
      'the process grew by 1,048,576 and by 2,097,152 bytes in 1,000 steps '
      'each, 1,049 a step')
