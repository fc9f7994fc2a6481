"""A cache of small programs whose executables outlive the runtime's use.

`_XLAC` has a program compiled at each read of a sharded tensor and drops it
right after (pytorch/xla#9751); what it caches it does not drop. So the shim
keeps dropped executables, and this module their records.
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
class CompileResult:
  """The result of compiling a program.

  Attributes:
    filed: the number of its record in the ledger.
    record: bytes and all.
    answer: what the runtime reads of it, and its format; None: the backend's.
  """
  record_number: int
  record: ProgramRecord
  answer: Optional[tuple[bytes, str]]


@dataclasses.dataclass
class CachedExecutable:
  """A program that was sent once, at least.

  Attributes:
    number: what the shim knows its executable by.
    compiled: set before the shim is told to keep it.
  """
  number: int
  result: Optional[CompileResult] = None


class ExecutableCache:
  """The programs that were sent last, by their bytes."""

  def __init__(self) -> None:
    self._lock = threading.Lock()
    self._numbers = itertools.count(1)
    self._programs: collections.OrderedDict[
        Hashable, CachedExecutable] = collections.OrderedDict()

  def find_or_add(self, compilation: Compilation,
                  meshes: Hashable) -> Optional[CachedExecutable]:
    """Finds a program's entry, or adds one; None for one that is too large.

    Args:
      meshes: those of the process, of which its plan may take one.
    """
    if len(compilation.program) > _LARGEST_PROGRAM:
      return None
    key = (compilation.program, compilation.format, compilation.options, meshes)
    with self._lock:
      cached = self._programs.setdefault(key,
                                         CachedExecutable(next(self._numbers)))
      self._programs.move_to_end(key)
      if len(self._programs) > _MOST:
        self._programs.popitem(last=False)
      return cached
