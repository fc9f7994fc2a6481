"""Processes that have imported torch_xla already: forked, not started.

Importing torch and torch_xla takes seconds, running a test often less. A base
server imports torch once, and jax without showing it. For each environment that
is asked for it forks a server which sets that environment and imports torch_xla,
as a user's process would; that one forks a child for each job. Nothing has started the XLA runtime
by then, so a child is as good as a new process.

    client -> base server: an environment         <- its server listens
    client -> environment's server: a job         <- a pid, then how it ended

All clients of a base server share its environments' servers.

A job is a pickled callable, called without arguments. What the callable raises
ends the child as it would end a script. A child ends when what was registered
for its end has run: to take the interpreter apart as well costs more CPU than
most tests. With FORKED_CHILDREN_END=whole in the environment that is done, too.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator, Mapping
import contextlib
import copy
import ctypes
import dataclasses
import functools
import gc
import hashlib
import importlib
import importlib.abc
import json
import os
import pickle
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import types
from typing import Any, Optional

_SERVER_SECONDS = 120
_READ_AT_START = ('PYTHON', 'LD_')
# By jax, when it is imported.
_READ_BY_JAX = 'JAX_'
_WITHOUT_JAX = '-without-jax'
END_VARIABLE = 'FORKED_CHILDREN_END'
# Where the base server listens that a child has in common with its parent.
FOLDER_VARIABLE = 'FORK_SERVERS'


@dataclasses.dataclass(frozen=True)
class Ended:
  """A child that has ended.

  Attributes:
    status: its exit status, negative for a signal; None if it was ended here
      because it took too long.
    output: what it printed, on stdout and on stderr.
    cpu_seconds: what it and its children took; 0 if it was ended here.
  """
  status: Optional[int]
  stdout: bytes
  stderr: bytes
  cpu_seconds: float


@dataclasses.dataclass(frozen=True)
class Place:
  """Where a child finds modules and files: `sys.path`, and the folder it is in.
  """
  path: tuple[str, ...]
  folder: str

  @classmethod
  def here(cls) -> Place:
    return cls(tuple(sys.path), os.getcwd())


class ForkServers:
  """The client's side: starts the base server when it is first needed."""

  def __init__(self):
    self._mutex = threading.Lock()
    self._base: Optional[subprocess.Popen] = None
    self._folder = ''
    self._addresses: set[str] = set()
    # As Python has read them. Threads of a session ask for children while a
    # test may have changed this process's environment.
    self._read = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_READ_AT_START)
    }

  def run(self,
          job: Callable[[], Any],
          environment: Mapping[str, str],
          seconds: float,
          place: Optional[Place] = None) -> Ended:
    """Runs `job` in a child that has just `environment`.

    Raises:
      RuntimeError: torch_xla cannot be imported in that environment.
      ValueError: a variable that Python reads as it starts differs from this
        process's, and a child does not start.
    """
    place = place or Place.here()
    for name in {*environment, *self._read}:
      if (name.startswith(_READ_AT_START) and
          environment.get(name) != self._read.get(name)):
        raise ValueError(
            f'{name} is read when Python starts: use processes.run')
    address = self._address(environment)
    with contextlib.ExitStack() as stack:
      files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(2)]
      connection = stack.enter_context(_connect(address))
      message = pickle.dumps({
          'job': pickle.dumps(job),
          'path': place.path,
          'folder': place.folder
      })
      _send(connection, message, [f.fileno() for f in files])
      pid = json.loads(_receive(connection))
      if isinstance(pid, str):
        raise RuntimeError(f'torch_xla cannot be imported:\n{pid}')
      connection.settimeout(seconds)
      try:
        status, cpu_seconds = json.loads(_receive(connection))
      except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
          os.killpg(pid, signal.SIGKILL)
        status, cpu_seconds = None, 0.
      output = []
      for file in files:
        file.seek(0)
        output.append(file.read())
    return Ended(status, *output, cpu_seconds)

  def close(self) -> None:
    """Ends the servers."""
    with self._mutex:
      if self._base is not None:
        self._base.stdin.close()  # Its end is the end of the servers.
        self._base.wait()
        self._base = None
        shutil.rmtree(self._folder)
      self._folder = ''
      self._addresses.clear()

  def folder(self) -> str:
    """Where the base server listens, for FOLDER_VARIABLE of another client."""
    with self._mutex:
      if not self._folder:
        self._start()
      return self._folder

  def _address(self, environment: Mapping[str, str]) -> str:
    request = pickle.dumps(sorted(environment.items()))
    address = f'{self.folder()}/{hashlib.sha256(request).hexdigest()[:16]}'
    with self._mutex:
      if address not in self._addresses:
        base = f'{self._folder}/0'
        if any(variable.startswith(_READ_BY_JAX) for variable in environment):
          base += _WITHOUT_JAX
        with _connect(base) as connection:
          _send(connection, pickle.dumps((dict(environment), address)))
          _receive(connection)
        self._addresses.add(address)
      return address

  def _start(self) -> None:
    self._folder = os.environ.get(FOLDER_VARIABLE, '')
    if not self._folder:
      self._folder = tempfile.mkdtemp(prefix='forks-')
      self._base = subprocess.Popen(
          [sys.executable, __file__, f'{self._folder}/0'],
          stdin=subprocess.PIPE,
          stdout=subprocess.PIPE)
      self._base.stdout.readline()  # It listens.


class _Job(BaseException):
  """Takes a child out of its server's stack: it then ends like any process."""

  def __init__(self, run: Callable[[], Any]):
    super().__init__()
    self.run = run


def _main(address: str) -> None:
  """The base server, and all that are forked from it."""
  # What torch_xla and the tests import in every environment.
  for name in ('torch', 'torch._inductor.compile_fx', 'pytest', 'hypothesis',
               'requests', 'yaml'):
    with contextlib.suppress(ImportError):
      importlib.import_module(name)
  listeners = [_listen(address + _WITHOUT_JAX), _listen(address)]
  is_parent = os.fork()
  listener = listeners.pop(bool(is_parent))
  listeners.pop().close()
  if is_parent:
    for package in ('jax', 'jaxlib'):  # The former imports the latter.
      _Ahead.of(package)
  # What is there stays: no collection of garbage in a child has to look at it.
  gc.freeze()
  run = None
  try:
    with listener:
      if is_parent:
        print('listening', flush=True)
      _serve(listener, functools.partial(_fork_server, listener, set()))
  except _Job as job:
    run = job.run
  if run:
    _run_job(run)  # Outside of the block, which its exceptions would name.
  else:
    with contextlib.suppress(ChildProcessError):
      while True:
        os.wait()  # So that what the servers took is counted.


def _run_job(run: Callable[[], Any]) -> None:
  """Runs a job and, unless it raises what is to be shown, ends the process."""
  status = 0
  try:
    run()
  except SystemExit as end:
    if end.code is not None and not isinstance(end.code, int):
      raise
    status = end.code or 0
  if os.environ.get(END_VARIABLE) == 'whole':
    sys.exit(status)
  # As the interpreter does it, in its order.
  threading._shutdown()
  atexit._run_exitfuncs()
  sys.stdout.flush()
  sys.stderr.flush()
  ctypes.CDLL(None).fflush(None)
  os._exit(status & 0xff)


def _fork_server(listener: socket.socket, addresses: set[str],
                 connection: socket.socket) -> None:
  """Forks the server of an environment, unless there is one."""
  environment, address = pickle.loads(_receive(connection))
  with connection:
    if address in addresses:
      _send(connection, b'')
      return
    # What is asked of it before it has imported torch_xla waits.
    own = _listen(address)
    addresses.add(address)
    if os.fork():
      own.close()
      _send(connection, b'')
      return
  with _nothing_but_a_job():
    listener.close()
    os.environ.clear()
    os.environ.update(environment)
    answer = functools.partial(_fork_child, own)
    try:
      import torch_xla
      import torch_xla.distributed.spmd  # noqa: F401
    except BaseException:  # pylint: disable=broad-except
      answer = functools.partial(_refuse, traceback.format_exc())
    gc.freeze()
    with own:
      _serve(own, answer)
    os._exit(0)


def _refuse(problem: str, connection: socket.socket) -> None:
  """Answers a job whose environment cannot import torch_xla."""
  with connection:
    _, files = _receive_with_files(connection)
    for file in files:
      os.close(file)
    _send(connection, json.dumps(problem).encode())


def _fork_child(listener: socket.socket,
                connection: socket.socket) -> Optional[tuple[int, Any]]:
  """Forks a child for a job; returns it with whom its end is to be told."""
  message, files = _receive_with_files(connection)
  pid = os.fork()
  if pid:
    for file in files:
      os.close(file)
    with contextlib.suppress(BrokenPipeError):
      _send(connection, json.dumps(pid).encode())
    return pid, connection
  with _nothing_but_a_job():
    listener.close()
    connection.close()
    os.setsid()
    request = pickle.loads(message)
    for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), *files)):
      os.dup2(file, number)
      os.close(file)
    os.chdir(request['folder'])
    sys.path[:] = request['path']
    raise _Job(pickle.loads(request['job']))


class _Ahead(importlib.abc.MetaPathFinder, importlib.abc.Loader):
  """A package that was imported, and is not to be seen until it is asked for.

  torch_xla imports jax when it first marks a tensor, which takes longer than
  most tests. Whether a process has imported it makes a difference, and so do the
  variables that it sets.
  """

  def __init__(self, modules: dict[str, types.ModuleType],
               variables: dict[str, str]):
    self._modules = modules
    self._specs = {name: m.__spec__ for name, m in modules.items()}
    self._variables = variables

  @classmethod
  def of(cls, package: str) -> None:
    """Imports a package, if it is installed, and hides it."""
    before = dict(os.environ)
    with contextlib.suppress(ImportError):
      importlib.import_module(package)
      names = [n for n in sys.modules if n.split('.')[0] == package]
      modules = {name: sys.modules.pop(name) for name in names}
      new = {n: t for n, t in os.environ.items() if n not in before}
      sys.meta_path.insert(0, cls(modules, new))
    sys.modules.pop('libtpu', None)  # It sets some, too.
    os.environ.clear()
    os.environ.update(before)

  def find_spec(self, fullname, path, target=None):
    if fullname not in self._modules:
      return None
    spec = copy.copy(self._specs[fullname])
    spec.loader = self
    return spec

  def create_module(self, spec):
    sys.meta_path.remove(self)
    sys.modules.update(self._modules)
    for name, text in self._variables.items():
      os.environ.setdefault(name, text)
    return self._modules[spec.name]

  def exec_module(self, module):
    module.__spec__ = self._specs[module.__name__]


@contextlib.contextmanager
def _nothing_but_a_job() -> Iterator[None]:
  """Ends a forked process that fails: it must not go on as what it was."""
  try:
    yield
  except _Job:
    raise
  except BaseException:  # pylint: disable=broad-except
    traceback.print_exc()
    sys.stderr.flush()
    os._exit(1)


def _serve(listener: socket.socket, answer: Callable) -> None:
  """Answers requests and tells children's ends, until stdin ends."""
  selector = selectors.DefaultSelector()
  selector.register(0, selectors.EVENT_READ, 'end')
  selector.register(listener, selectors.EVENT_READ, 'request')
  while True:
    for key, _ in selector.select():
      if key.data == 'end':
        return
      if key.data == 'request':
        connection, _ = listener.accept()
        try:
          child = answer(connection)
        except OSError:  # The client is gone.
          child = None
        if child:
          pid, connection = child
          selector.register(
              os.pidfd_open(pid), selectors.EVENT_READ, (pid, connection))
        continue
      pid, connection = key.data
      _, status, usage = os.wait4(pid, 0)
      selector.unregister(key.fileobj)
      os.close(key.fileobj)
      with contextlib.suppress(OSError), connection:
        end = (os.waitstatus_to_exitcode(status),
               usage.ru_utime + usage.ru_stime)
        _send(connection, json.dumps(end).encode())


def _listen(address: str) -> socket.socket:
  listener = socket.socket(socket.AF_UNIX)
  listener.bind(address)
  listener.listen()
  return listener


def _connect(address: str) -> socket.socket:
  connection = socket.socket(socket.AF_UNIX)
  connection.settimeout(_SERVER_SECONDS)
  connection.connect(address)
  return connection


def _send(connection: socket.socket, data: bytes,
          files: tuple[int, ...] = ()) -> None:
  head = len(data).to_bytes(8, 'big')
  socket.send_fds(connection, [head], list(files))
  connection.sendall(data)


def _receive_with_files(connection: socket.socket) -> tuple[bytes, list[int]]:
  head, files, _, _ = socket.recv_fds(connection, 8, 2)
  if len(head) < 8:
    raise ConnectionError('a fork server ended')
  data = bytearray()
  size = int.from_bytes(head, 'big')
  while len(data) < size:
    part = connection.recv(size - len(data))
    if not part:
      raise ConnectionError('a fork server ended')
    data += part
  return bytes(data), list(files)


def _receive(connection: socket.socket) -> bytes:
  return _receive_with_files(connection)[0]


if __name__ == '__main__':
  _main(sys.argv[1])
