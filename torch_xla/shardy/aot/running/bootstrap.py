"""Runs a script ahead of time: the first file of the process that does it.

A script may set variables that torch_xla reads when it is imported, so nothing
here imports it before the script does. Run by path, not as a module.
"""

import ctypes
import importlib.abc
import importlib.util
import json
import os
import runpy
import signal
import sys
import threading

_PATIENCE_SECONDS = 20
_FAILED, _NEVER_BEGAN = 1, 64  # The latter as `settings` has it.
# Of prctl(2).
_SET_DEATH_SIGNAL = 1


class _Watcher(importlib.abc.MetaPathFinder):
  """Begins the session as soon as torch_xla is imported.

  Attributes:
    session: a `session.Session`; None before.
  """

  def __init__(self, settings: str):
    self.session = None
    self._settings = settings
    self._looking = False

  def find_spec(self, fullname, path=None, target=None):
    if fullname != 'torch_xla' or self._looking:
      return None
    self._looking = True
    try:
      spec = importlib.util.find_spec(fullname)
    finally:
      self._looking = False
    # Some only ask whether there is such a module.
    if spec is not None:
      run = spec.loader.exec_module
      spec.loader.exec_module = lambda module: self._begin(run, module)
    return spec

  def _begin(self, run, module) -> None:
    # Unchanged scripts may say that they are for a CPU.
    chosen = os.environ.get('PJRT_DEVICE')
    os.environ['PJRT_DEVICE'] = 'TPU'
    run(module)
    if self.session is None:
      from torch_xla.shardy.aot.running import session
      self.session = session.begin(self._settings, chosen)


def _say_why_not(ending) -> int:
  """Says why no session began; returns the process's exit status."""
  if ending is None or isinstance(ending, SystemExit) and not ending.code:
    print('aot: the script never imported torch_xla', file=sys.stderr)
    return _NEVER_BEGAN
  if isinstance(ending, SystemExit):
    if isinstance(ending.code, int):
      return _FAILED if ending.code == _NEVER_BEGAN else ending.code
    print(ending.code, file=sys.stderr)
  elif not isinstance(ending, KeyboardInterrupt):
    from torch_xla_shardy.script_process import traceback_of
    text = traceback_of(ending, os.path.dirname(__file__))
    print(text, end='', file=sys.stderr)
  return _FAILED


def main() -> None:
  # Not without the command that waits for it.
  ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGTERM)
  # A command in the background of a shell has it ignored.
  signal.signal(signal.SIGINT, signal.default_int_handler)
  text = sys.argv[1]
  settings = json.loads(text)
  script = settings['script']
  sys.argv[:] = [script, *settings['arguments']]
  watcher = _Watcher(text)
  sys.meta_path.insert(0, watcher)
  ending = None
  try:
    if settings['is_module']:
      sys.path[0] = os.getcwd()
      runpy.run_module(script, run_name='__main__', alter_sys=True)
    else:
      sys.path[0] = os.path.dirname(os.path.abspath(script))
      # Python itself gives a script its whole path.
      runpy.run_path(os.path.abspath(script), run_name='__main__')
  except BaseException as e:  # pylint: disable=broad-except
    ending = e
  if watcher.session is None:
    sys.exit(_say_why_not(ending))
  status = watcher.session.end(ending)
  # The report is written. What a script left running must not hold it up.
  leaving = threading.Timer(_PATIENCE_SECONDS, os._exit, (status,))
  leaving.daemon = True
  leaving.start()
  sys.exit(status)


if __name__ == '__main__':
  main()
