"""Runs cases, each in a process of its own, and collects what they found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
import concurrent.futures
import contextlib
import dataclasses
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, IO, Optional

from ..shared.ended_process import how_ended, last_words
from ..shared.mode import Mode, SHARDY_VARIABLES, V2_VARIABLE
from ..case import Case, ConformanceError, Needs
from ..result import AT_EXIT, printable, Result, Status
from ..subject import Subject
from . import packets, server

_SERVER_SECONDS = 300
_CLOSE_SECONDS = 5
_KILL_SECONDS = 20
# In which a worker ends whose part failed, and in which one says what it is in.
_END_SECONDS, _ANSWER_SECONDS = 10, 2


class Servers:
  """The processes that workers are forked from.

  There is one for each mode of torch_xla, and one without it. They start when
  they are first needed and know no plugin: several runners can share them.
  """

  def __init__(self):
    self._mutex = threading.Lock()
    self._of_mode: dict[Optional[Mode], _Server] = {}

  def start(self, mode: Optional[Mode]) -> _Server:
    """The server of a mode, or without torch_xla; started if there is none.

    Raises:
      ConformanceError: torch_xla cannot be imported.
    """
    with self._mutex:
      if mode not in self._of_mode:
        self._of_mode[mode] = _Server(mode)
      server_ = self._of_mode[mode]
    server_.wait_until_ready()  # Without the mutex, which `close` needs.
    return server_

  def close(self) -> None:
    """Ends them, and all workers."""
    with self._mutex:
      servers, self._of_mode = self._of_mode, {}
    for running in servers.values():
      running.close()


class Runner:
  """Runs cases on a plugin."""

  def __init__(self,
               subject: Subject,
               servers: Servers,
               timeout: Optional[float] = None):
    """Makes a runner of cases for one plugin.

    Args:
      servers: their owner closes them.
      timeout: seconds of each part, in place of what its case says.
    """
    self._subject = subject
    self._servers = servers
    self._timeout = timeout
    self._stopped = False

  def run(self, case: Case, parts: Sequence[str],
          capabilities: Mapping[str, Any]) -> Iterator[Result]:
    """Yields a result for each part.

    A part that ends its process, or that takes too long, is a result too; what
    comes after it is run in another.

    Raises:
      ConformanceError: torch_xla cannot be imported, or there is no plugin.
    """
    waiting = list(parts)
    while waiting and not self._stopped:
      for result in self._run_some(case, tuple(waiting), capabilities):
        if result.part in waiting:
          waiting.remove(result.part)
        yield dataclasses.replace(result, text=printable(result.text))

  def _run_some(self, case: Case, parts: Sequence[str],
                capabilities: Mapping[str, Any]) -> Iterator[Result]:
    """Yields results until the process has ended: of one part at least."""
    limit = self._timeout or case.seconds
    request = {
        'case': case.name,
        'parts': parts,
        'subject': self._subject,
        'capabilities': dict(capabilities),
    }
    with tempfile.TemporaryFile() as log:
      with self._servers.start(self._mode(case)).work(request, log) as worker:
        part, begun = parts[0], time.monotonic()
        ended = []
        complete = failed = False
        while True:
          message = worker.next(min(limit, _END_SECONDS) if failed else limit)
          if 'hung' in message or 'exit' in message:
            break
          if 'begin' in message:
            part, begun = message['begin'], time.monotonic()
          elif 'error' in message:
            raise ConformanceError(message['error'])
          else:
            ended.append(part)
            # A worker ends itself with the first part that failed.
            failed = message['result'].status is Status.FAILED
            complete = failed or len(ended) == len(parts)
            yield message['result']
      if self._stopped:
        return
      seconds = time.monotonic() - begun
      log_text = _last_words(log)
    if failed and message.get('exit', 1) > 0:
      pass  # Its end meets with what failed again.
    elif 'hung' in message:
      when = f' behind {part or case.name}' if part in ended else ''
      yield Result(
          case.name, _rest(part, ended), Status.HUNG,
          f'no end after {limit:g} s{when}{message["hung"]}{log_text}', seconds)
    elif message['exit'] != 0 or not complete:
      how = how_ended(message['exit'])
      yield Result(case.name, _rest(part, ended), Status.CRASHED,
                   f'the process {how}{log_text}', seconds)

  def _mode(self, case: Case) -> Optional[Mode]:
    """torch_xla's for a case; None: it does without torch_xla.

    A registered plugin is known by torch_xla alone.
    """
    if case.needs is Needs.PLUGIN and self._subject.library:
      return None
    return case.mode

  def run_all(self, chosen: Sequence[tuple[Case, Sequence[str]]],
              capabilities: Mapping[str, Any], jobs: int,
              on_case: Callable[[Case],
                                None], on_result: Callable[[Result],
                                                           None]) -> None:
    """Runs cases, some at a time.

    `on_case` hears of each as it begins, `on_result` of each part at its end.

    An interrupt, or what `run` raises, ends all processes.
    """

    def run_case(case: Case, parts: Sequence[str]) -> None:
      if not self._stopped:
        on_case(case)
      for result in self.run(case, parts, capabilities):
        on_result(result)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
      futures = [pool.submit(run_case, *each) for each in chosen]
      try:
        for future in concurrent.futures.as_completed(futures):
          future.result()
      except BaseException:
        for future in futures:
          future.cancel()
        self._stopped = True
        self._servers.close()
        raise


def _rest(part: str, ended: Sequence[str]) -> str:
  """The part that a process ended in: one of its own if all were over."""
  return AT_EXIT if part in ended else part


def _last_words(log: IO[bytes]) -> str:
  words = last_words(log)
  return f'; it said last: {words}' if words else ''


class _Worker:
  """A process that works on a request."""

  def __init__(self, control: socket.socket, channel: socket.socket):
    self._control = control
    self._channel = channel
    self._pid: Optional[int] = None

  def next(self, seconds: float) -> dict[str, Any]:
    """Its next message; of one that sent none for so long, where it hung.

    That one was ended.
    """
    if self._pid is None:
      # A worker tells it before it does anything that could take long.
      first, _ = packets.receive(self._channel)
      if first is None:
        return {'exit': 1}  # The server is gone.
      if 'pid' not in first:
        return first
      self._pid = first['pid']
    self._channel.settimeout(seconds)
    try:
      message, _ = packets.receive(self._channel)
    except TimeoutError:
      # It says itself what it is in: ' in PJRT_Event_Await'.
      with contextlib.suppress(OSError):
        packets.send(self._channel, {'where': True})
      answer = self._wait_for('calls', _ANSWER_SECONDS)
      packets.send(self._control, {'kill': self._pid})
      # One that hangs in a driver cannot be ended: it is left behind.
      self._wait_for('exit', _KILL_SECONDS)
      return {'hung': f' in {answer["calls"]}' if answer else ''}
    return {'exit': 1} if message is None else message

  def _wait_for(self, key: str, seconds: float) -> Optional[dict[str, Any]]:
    """The message that has a key; None if it does not come in time."""
    self._channel.settimeout(seconds)
    with contextlib.suppress(OSError):
      while message := packets.receive(self._channel)[0]:
        if key in message:
          return message
    return None


class _Server:
  """A process that has imported torch_xla in a mode, or just the cases."""

  def __init__(self, mode: Optional[Mode]):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    self._log = tempfile.TemporaryFile()
    self._control = ours
    command = [sys.executable, '-m', server.__name__, str(theirs.fileno())]
    with theirs:
      self._process = subprocess.Popen(
          command + [server.WITH_TORCH_XLA] * (mode is not None),
          env=_environment(mode),
          pass_fds=(theirs.fileno(),),
          stdin=subprocess.DEVNULL,
          stdout=self._log,
          stderr=self._log,
          start_new_session=True)
    self._mutex = threading.Lock()
    self._ready = False

  def wait_until_ready(self) -> None:
    """Waits until the server has imported what its workers need.

    Raises:
      ConformanceError: torch_xla cannot be imported.
    """
    with self._mutex:
      if self._ready:
        return
      self._control.settimeout(_SERVER_SECONDS)
      try:
        message, _ = packets.receive(self._control)
      except (TimeoutError, OSError):  # Another thread may have closed it.
        message = None
      if message is None:
        raise ConformanceError(
            f'torch_xla cannot be imported{_last_words(self._log)}')
      self._control.settimeout(None)
      self._ready = True

  @contextlib.contextmanager
  def work(self, request: Mapping[str, Any],
           log: IO[bytes]) -> Iterator[_Worker]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
      with theirs:
        packets.send(self._control, request, (theirs.fileno(), log.fileno()))
      yield _Worker(self._control, ours)

  def close(self) -> None:
    self._control.close()  # Its end is the end of the server and its workers.
    try:
      self._process.wait(_CLOSE_SECONDS)
    except subprocess.TimeoutExpired:
      self._process.kill()  # It is still importing, and has no workers.
      self._process.wait()


def _environment(mode: Optional[Mode]) -> dict[str, str]:
  """The user's, with at most this mode, and no runtime chosen yet."""
  variables = {
      'TF_CPP_MIN_LOG_LEVEL': '2',
      # There is no metadata server to ask for a TPU on most machines, and libtpu
      # would ask for minutes.
      'TPU_SKIP_MDS_QUERY': '1',
      'ALLOW_MULTIPLE_LIBTPU_LOAD': '1',
      # XLA's CPU plugin sizes its pools by it: see `door.device_plugins`.
      'NPROC': '32',
      **os.environ
  }
  for name in (*SHARDY_VARIABLES, V2_VARIABLE, 'PJRT_DEVICE',
               'XLA_PERSISTENT_CACHE_PATH'):
    variables.pop(name, None)
  if mode:
    variables[V2_VARIABLE if mode is Mode.V2 else SHARDY_VARIABLES[0]] = '1'
  return variables
