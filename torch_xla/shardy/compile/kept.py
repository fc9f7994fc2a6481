"""Small programs whose executables outlive the runtime's use of them.

`_XLAC` has a program compiled at each read of a sharded tensor and drops it
right after (pytorch/xla#9751); what it caches it does not drop. So the shim
keeps what is dropped, and this what is known of it.
"""

from __future__ import annotations

import collections
from collections.abc import Hashable
import dataclasses
import itertools
import threading
from typing import Optional

from ..door.shim import Compilation
from .record import ProgramRecord

# Whatever a program holds as constants, its executable holds on the device.
_LARGEST_PROGRAM = 16 * 1024
# How many programs are kept: as many as the shim keeps.
_MOST = 64


@dataclasses.dataclass(frozen=True)
class Compiled:
  """What came of a program.

  Attributes:
    filed: the number of its record in the ledger.
    record: bytes and all.
    answer: what the runtime reads of it, and its format; None: the backend's.
  """
  filed: int
  record: ProgramRecord
  answer: Optional[tuple[bytes, str]]


@dataclasses.dataclass
class Kept:
  """A program that came by once, at least.

  Attributes:
    number: what the shim knows its executable by.
    compiled: set before the shim is told to keep it.
  """
  number: int
  compiled: Optional[Compiled] = None


class KeptPrograms:
  """The programs that came by last, found by their bytes."""

  def __init__(self) -> None:
    self._lock = threading.Lock()
    self._numbers = itertools.count(1)
    self._programs: collections.OrderedDict[Hashable,
                                            Kept] = collections.OrderedDict()

  def of(self, compilation: Compilation, meshes: Hashable) -> Optional[Kept]:
    """What is known of a program; None of one that is too large to be kept.

    Args:
      meshes: those of the process, of which its plan may take one.
    """
    if len(compilation.program) > _LARGEST_PROGRAM:
      return None
    key = (compilation.program, compilation.format, compilation.options, meshes)
    with self._lock:
      kept = self._programs.setdefault(key, Kept(next(self._numbers)))
      self._programs.move_to_end(key)
      if len(self._programs) > _MOST:
        self._programs.popitem(last=False)
      return kept
