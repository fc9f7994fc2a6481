"""A worker: runs the parts of one case, and reports their begin and end."""

from __future__ import annotations

from collections.abc import Mapping
import contextlib
import os
import socket
import sys
import threading
import time
import traceback
from typing import Any

from .. import suite
from ..case import Case, ConformanceError, Failure, NotApplicable
from ..context import Context
from ..pjrt.table import MissingError, PjrtError, Table
from ..result import Result, Status
from .packets import receive, send

_LONGEST = 4000


def run(request: Mapping[str, Any], channel: socket.socket) -> None:
  context = Context(request['subject'], request['capabilities'])
  case = suite.named(request['case'])
  threading.Thread(target=_answer, args=(channel,), daemon=True).start()
  with channel, contextlib.closing(context):
    for part in request['parts']:
      send(channel, {'begin': part})
      try:
        result = judge(case, context, part)
      except ConformanceError as e:
        send(channel, {'error': str(e)})
        return
      send(channel, {'result': result})
      if result.status is Status.FAILED:
        return  # What failed may have left torch_xla unfit for other parts.


def _answer(channel: socket.socket) -> None:
  """Says what the other threads are in whenever the run asks."""
  with contextlib.suppress(OSError):
    while receive(channel)[0]:
      send(channel, {'calls': _calls()})


def _calls() -> str:
  """The plugin's functions that threads are in; if in none, the main's place."""
  names = set()
  main = sys._current_frames()[threading.main_thread().ident or 0]
  for innermost in sys._current_frames().values():
    for frame, _ in traceback.walk_stack(innermost):
      if frame.f_code is Table.call_with.__code__:
        names.add(f'PJRT_{frame.f_locals["name"]}')
  return ' and '.join(sorted(names)) or (
      f'{os.path.basename(main.f_code.co_filename)}:{main.f_lineno}')


def judge(case: Case, context: Context, part: str) -> Result:
  """Tries a part.

  Raises:
    ConformanceError: it says nothing about the plugin.
  """
  start, status = time.monotonic(), Status.FAILED
  try:
    text = case.run(context, part)
    context.release()
    status = Status.PASSED
  except NotApplicable as e:
    status, text = Status.SKIPPED, str(e)
  except (Failure, MissingError) as e:
    text = str(e)
  except PjrtError as e:
    text = f'the plugin gave an error, {e}'
  except ConformanceError:
    raise
  except Exception as e:  # What torch_xla makes of a plugin's errors.
    text = f'{_place(e)}: {type(e).__name__}: {e}'
  if status is not Status.PASSED:
    text = text[:_LONGEST]
  return Result(case.name, part, status, text, time.monotonic() - start)


def _place(error: BaseException) -> str:
  frame = traceback.extract_tb(error.__traceback__)[-1]
  return f'{os.path.basename(frame.filename)}:{frame.lineno}'
