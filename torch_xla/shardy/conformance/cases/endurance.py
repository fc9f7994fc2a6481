"""Ten thousand steps, and nothing that grows with them."""

from __future__ import annotations

import os
import time

from ..case import Case, expect
from ..context import Context
from ..pjrt.client import Client
from ..pjrt.numbers import destroy, floats, read_floats
from ..pjrt.programs import Elementwise
from ..pjrt.table import MissingError, PjrtError

_STEPS = 10_000
_WARM_UP = 1_000
# Allocators take some more now and then; a leak of 1 KiB a step is 10 MB.
_BYTES = 6 << 20
_FILES = 4
# The quickest hundred of the last thousands over that of the first: a list that
# is searched grows it, and other work on the machine does not.
_BLOCK = 100
_SLOWER = 10.


def _resident() -> int:
  with open('/proc/self/statm', encoding='ascii') as file:
    return int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')


def _open_files() -> int:
  return len(os.listdir('/proc/self/fd'))


def _on_device(client: Client) -> int:
  """Bytes in use; 0 where the plugin does not tell."""
  try:
    return client.bytes_in_use()
  except (MissingError, PjrtError):
    return 0


def _steps(context: Context, part: str) -> str:
  del part
  with context.client() as client:
    loaded = client.compile(context.program(Elementwise((1024,)), client))
    given = floats(range(1024))
    left = client.put(given)
    wanted = tuple(2. * i for i in range(1024))
    memory = files = held = 0
    seconds = []
    for number in range(_STEPS):
      if number % _BLOCK == 0:
        begun = time.perf_counter()
      if number == _WARM_UP:
        memory, files = _resident(), _open_files()
        held = _on_device(client)
      right = client.put(given)
      (result,), = loaded.execute([[left, right]])
      if number % _BLOCK == 0:
        found = read_floats(result, 1024)
        expect(found == wanted, f'step {number} gave other numbers than step 0')
      destroy((right, result))
      if number % _BLOCK == _BLOCK - 1:
        seconds.append(time.perf_counter() - begun)
    grown, opened = _resident() - memory, _open_files() - files
    kept = _on_device(client) - held
    destroy((left,))
    loaded.destroy()
  expect(
      grown < _BYTES, f'the process grew by {grown / 2**20:.1f} MiB in '
      f'{_STEPS - _WARM_UP} steps, {grown / (_STEPS - _WARM_UP):.0f} bytes '
      'in each')
  expect(
      kept < _BYTES, f'{kept / 2**20:.1f} MiB more are in use on the device '
      f'than after {_WARM_UP} steps')
  expect(opened < _FILES, f'{opened} files are open that were not after '
         f'{_WARM_UP} steps')
  some = 2 * _WARM_UP // _BLOCK
  slower = min(seconds[-some:]) / min(seconds[:some])
  expect(slower < _SLOWER, f'the last steps took {slower:.1f} times as long as '
         'the first')
  return (f'{_STEPS} steps, {grown / 2**20:+.1f} MiB, the last {slower:.2f} '
          'times as long as the first')


def cases() -> tuple[Case, ...]:
  return (Case(
      'endurance.steps', 'a long training runs out of memory or '
      'becomes slower',
      _steps,
      seconds=300),)
