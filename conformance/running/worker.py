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
from ..case import Case, Failure, NotApplicable
from ..context import Context
from ..errors import ConformanceError
from ..pjrt.table import MissingError, PjrtError, Table
from ..result import Status
from ..subject import Subject
from . import packets

_LONGEST = 4000


def run(request: Mapping[str, Any], channel: socket.socket) -> None:
  context = Context(
      Subject.from_dict(request['subject']), request['capabilities'])
  case = suite.named(request['case'])
  threading.Thread(target=_answer, args=(channel,), daemon=True).start()
  with channel, contextlib.closing(context):
    for part in request['parts']:
      packets.send(channel, {'begin': part})
      start = time.monotonic()
      status, text = judge(case, context, part)
      packets.send(
          channel, {
              'end': part,
              'status': status,
              'text': text[:_LONGEST] if status != 'passed' else text,
              'seconds': time.monotonic() - start,
          })
      if status == Status.FAILED.value:
        return  # What failed may have left torch_xla unfit for other parts.


def _answer(channel: socket.socket) -> None:
  """Says what the other threads are in whenever the run asks."""
  with contextlib.suppress(OSError):
    while packets.receive(channel)[0]:
      packets.send(channel, {'calls': _calls()})


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


def judge(case: Case, context: Context, part: str) -> tuple[str, str]:
  """Tries a part: its status and what is to be said of it."""
  try:
    return Status.PASSED.value, case.run(context, part) or ''
  except NotApplicable as e:
    return Status.SKIPPED.value, str(e)
  except ConformanceError as e:
    return 'error', str(e)
  except (Failure, MissingError) as e:
    return Status.FAILED.value, str(e)
  except PjrtError as e:
    return Status.FAILED.value, f'the plugin gave an error, {e}'
  except Exception as e:  # What torch_xla makes of a plugin's errors.
    return Status.FAILED.value, f'{_place(e)}: {type(e).__name__}: {e}'


def _place(error: BaseException) -> str:
  frame = traceback.extract_tb(error.__traceback__)[-1]
  return f'{os.path.basename(frame.filename)}:{frame.lineno}'
