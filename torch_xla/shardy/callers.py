"""Finds where in the user's code something was asked for."""

from __future__ import annotations

from collections.abc import Iterator
import os
import sys
import sysconfig
import threading
import types
from typing import Optional

_MOST = 4


class Callers:
  """Names lines of the user's code.

  What is installed, Python's own library and generated code are not that.
  """

  def __init__(self, script_folder: str = '.'):
    self._folder = os.path.abspath(script_folder)
    paths = sysconfig.get_paths()
    # Where this package is developed, its files are links to other places.
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folders = {
        paths['stdlib'], paths['platstdlib'], paths['purelib'],
        paths['platlib'], package
    }
    self._foreign_folders = tuple(
        os.path.realpath(f) + os.sep for f in folders) + tuple(
            f + os.sep for f in folders)

  def now(self) -> tuple[str, ...]:
    """The lines that this thread is in, innermost first, a few at most.

    Those of the main thread where this one has no line of the user's.
    """
    lines = tuple(self._lines(sys._getframe(1)))
    if not lines and threading.current_thread() is not threading.main_thread():
      frame = sys._current_frames().get(threading.main_thread().ident)
      lines = tuple(self._lines(frame))
    return lines[:_MOST]

  def _lines(self, frame: Optional[types.FrameType]) -> Iterator[str]:
    while frame is not None:
      file = frame.f_code.co_filename
      if self._is_users(file):
        function = frame.f_code.co_name
        where = '' if function == '<module>' else f' in {function}'
        yield f'{self._shown(file)}:{frame.f_lineno}{where}'
      frame = frame.f_back

  def _is_users(self, file: str) -> bool:
    if file.startswith('<') or os.sep not in file:
      return False
    path = os.path.abspath(file)
    inside = path.startswith(self._folder + os.sep)
    # An environment may lie in the folder of the script.
    nested = tuple(
        o for o in self._foreign_folders if o.startswith(self._folder))
    return not path.startswith(nested if inside else self._foreign_folders)

  def _shown(self, file: str) -> str:
    path = os.path.abspath(file)
    if path.startswith(self._folder + os.sep):
      return os.path.relpath(path, self._folder)
    return path
