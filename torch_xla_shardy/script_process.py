"""Runs a script in this process as Python itself would."""

from __future__ import annotations

from collections.abc import Callable
import os
import runpy
import sys
import threading
import traceback
from typing import Any, NamedTuple, NoReturn, Optional

_FAILED = 3
# Of what runs scripts: no user's frames.
_OWN = ('<frozen runpy>', runpy.__file__, os.path.dirname(__file__))
_LONGEST = 200


class _Left(BaseException):
  """The end of a script by os._exit."""


class Ended(NamedTuple):
  """The end of a script.

  Attributes:
    names: its globals, if it came to its end.
    failure: 'exit status 3', 'os._exit(0)' or 'KeyError: ...'; empty if it did
      not fail.
  """
  names: dict[str, Any]
  failure: str


def run(script: str, arguments: list[str], is_module: bool = False) -> Ended:
  """Runs a file or a module as `__main__`; prints the traceback of its error.

  `os._exit` on its main thread ends the script alone, as failed: otherwise a
  command would end with it, silently. On another thread it ends the process, as
  failed, and so does becoming another program.
  """
  # Python itself gives a script its whole path in `__file__`; runpy gives it in
  # sys.argv, too.
  path = script if is_module else os.path.abspath(script)
  sys.argv[:] = [path, *arguments]
  sys.path[0] = os.getcwd() if is_module else os.path.dirname(path)
  process, before = os.getpid(), (os._exit, os.execv, os.execve)

  def fail(how: str, status: int = _FAILED) -> NoReturn:
    print(
        f'error: {script} {how}: nothing is told', file=sys.stderr, flush=True)
    before[0](status or _FAILED)

  def end(status: int) -> NoReturn:
    if os.getpid() != process:
      before[0](status)
    if threading.current_thread() is not threading.main_thread():
      fail('ended with os._exit on a thread', status)
    raise _Left(status)

  def becoming(become: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *program: (
        fail('became another program')
        if os.getpid() == process else become(*program))

  os._exit = end
  os.execv, os.execve = becoming(os.execv), becoming(os.execve)
  try:
    return Ended(
        runpy.run_module(script, run_name='__main__', alter_sys=True)
        if is_module else runpy.run_path(path, run_name='__main__'), '')
  except _Left as e:
    return Ended({}, f'os._exit({e.args[0]})')
  except SystemExit as e:
    if isinstance(e.code, str):
      print(e.code, file=sys.stderr)
    return Ended({}, f'exit status {_status(e.code)}' if e.code else '')
  except KeyboardInterrupt:
    raise
  except BaseException as e:  # pylint: disable=broad-except
    print(traceback_of(e), end='', file=sys.stderr, flush=True)
    return Ended({}, one_line(e))
  finally:
    os._exit, os.execv, os.execve = before


def one_line(error: BaseException) -> str:
  """An error in one line: 'KeyError: ...'."""
  text = ' '.join(str(error).split())
  if len(text) > _LONGEST:
    text = text[:_LONGEST] + '...'
  return f'{type(error).__name__}: {text}' if text else type(error).__name__


def traceback_of(error: BaseException, *folders: str) -> str:
  """The traceback, without the frames of what runs the script.

  Args:
    folders: of which frames are left out, too.
  """
  report = traceback.TracebackException.from_exception(error)
  part: Optional[traceback.TracebackException] = report
  while part:
    part.stack[:] = [
        frame for frame in part.stack
        if not frame.filename.startswith((*_OWN, *folders))
    ]
    part = part.__cause__ or part.__context__
  return ''.join(report.format())


def _status(code: Any) -> int:
  return code if isinstance(code, int) else 1
