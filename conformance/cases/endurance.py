"""Ten thousand steps, and nothing that grows with them."""

from __future__ import annotations

import functools
import os
import time
from typing import Optional

from ..case import Case, expect
from ..context import Context
from ..pjrt.client import Client
from ..pjrt.numbers import destroy, floats
from ..pjrt.programs import Elementwise
from ..pjrt.table import MissingError, PjrtError

_STEPS = 10_000
_WARM_UP = 2_000
# Allocators take some more now and then; a leak of 256 bytes a step is 2 MiB.
_BYTES = 2 << 20
_FILES = 4
_COMPILES = 200
_BYTES_OF_PROGRAM = 128 << 10
# The quickest block of the last ones over that of the first: a list that
# is searched grows it, and other work on the machine does not.
_BLOCK = 100
_COMPARED = 20
_SLOWER = 10.


def _resident() -> int:
  with open('/proc/self/statm', encoding='ascii') as file:
    return int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')


def _open_files() -> int:
  return len(os.listdir('/proc/self/fd'))


def _on_device(client: Client) -> Optional[int]:
  """Bytes in use; None where the plugin does not tell."""
  try:
    return client.bytes_in_use()
  except (MissingError, PjrtError):
    return None


def _steps(context: Context, part: str) -> str:
  with context.client() as client:
    loaded = client.compile(context.program(Elementwise((1024,)), client))
    numbers = floats(range(1024))
    left = client.put(numbers)
    doubles = floats(2 * i for i in range(1024))
    memory = files = 0
    device_before: Optional[int] = None
    spent, seconds = 0., []
    for number in range(_STEPS):
      if number == _WARM_UP:
        memory, files = _resident(), _open_files()
        device_before = _on_device(client)
      begun = time.perf_counter()
      right = client.put(numbers)
      (result,), = loaded.execute([[left, right]])
      spent += time.perf_counter() - begun
      found = doubles.first_difference(result.read('F32', (1024,)))
      expect(not found, f'step {number}: {found}')
      destroy((right, result))
      if number % _BLOCK == _BLOCK - 1:
        seconds.append(spent)
        spent = 0.
    grown, opened = _resident() - memory, _open_files() - files
    device_after = _on_device(client)
    destroy((left,))
    loaded.destroy()
  expect(
      grown < _BYTES, f'the process grew by {grown / 2**20:.1f} MiB in '
      f'{_STEPS - _WARM_UP} steps, {grown / (_STEPS - _WARM_UP):.0f} bytes '
      'in each')
  device_text = 'the device\'s memory is not told'
  if device_before is not None and device_after is not None:
    more = device_after - device_before
    device_text = f'{more / 2**20:+.1f} MiB on the device'
    expect(more < _BYTES, f'{device_text} since step {_WARM_UP}')
  expect(opened < _FILES, f'{opened} files are open that were not after '
         f'{_WARM_UP} steps')
  slower = min(seconds[-_COMPARED:]) / min(seconds[:_COMPARED])
  expect(slower < _SLOWER, f'the last steps took {slower:.1f} times as long as '
         'the first')
  return (f'{_STEPS} steps, {grown / 2**20:+.1f} MiB, {device_text}, the last '
          f'{slower:.2f} times as long as the first')


def _compiles(context: Context, part: str) -> str:
  """Programs that are compiled and destroyed again."""
  memory = 0
  with context.client() as client:
    for number in range(_COMPILES):
      if number == _COMPILES // 2:
        memory = _resident()
      # Of another shape each time, or a cache may know it.
      client.compile(context.program(Elementwise((number + 1,)),
                                     client)).destroy()
    grown = _resident() - memory
  each = grown / (_COMPILES // 2)
  expect(
      each < _BYTES_OF_PROGRAM, f'each program that is compiled and destroyed '
      f'leaves {each / 2**20:.2f} MiB behind')
  return f'{_COMPILES} programs, {each / 2**10:+.0f} KiB each'


_case = functools.partial(Case, seconds=300)
CASES: tuple[Case, ...] = (
    _case('endurance.steps',
          'a long training runs out of memory or becomes slower', _steps),
    _case('endurance.compiles', 'a run whose shapes change runs out of memory',
          _compiles),
)
