"""Checks of what the devices hold, and of what a plugin cannot do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
import contextlib

from ..case import expect, NotApplicable
from ..pjrt.buffer import Buffer
from ..pjrt.client import Client
from ..pjrt.executable import Loaded
from ..pjrt.host_array import HostArray
from ..pjrt.table import PjrtError


@contextlib.contextmanager
def skipped_if(code: str, why: str = '') -> Iterator[None]:
  """Skips the part if the block ends with an error of that code.

  Raises:
    NotApplicable: it does.
  """
  try:
    yield
  except PjrtError as e:
    if e.code != code:
      raise
    raise NotApplicable(f'{why}{e}') from e


def check_array(buffer: Buffer, expected: HostArray, label: str) -> None:
  """Checks that a buffer holds an array, bit for bit.

  Raises:
    Failure: it does not; it says where first.
  """
  told = buffer.type_number, buffer.dims
  expect(
      told == (expected.type_number, expected.dims),
      f'{label}: it says of itself that it has the type and dimensions {told}')
  difference = expected.first_difference(
      buffer.read(expected.type_name, expected.dims))
  expect(not difference, f'{label}: {difference}')


def check_floats(buffer: Buffer, expected: Iterable[float], label: str) -> None:
  """Checks that a buffer holds numbers of float32.

  Raises:
    Failure: it does not.
  """
  wanted = tuple(map(float, expected))
  actual = buffer.floats(len(wanted))
  expect(actual == wanted, f'{label} {actual} in place of {wanted}')


def check_run(client: Client, loaded: Loaded, given: Iterable[Iterable[float]],
              expected: Iterable[float], label: str) -> None:
  """Checks what a program for the first device makes of numbers.

  Raises:
    Failure: it is something else.
  """
  wanted = tuple(map(float, expected))
  actual = client.run(loaded, *given)
  expect(actual == wanted, f'{label} gives {actual} in place of {wanted}')
