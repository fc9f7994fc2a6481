"""Runs code in processes that have just the runtime settings asked for."""

from __future__ import annotations

import atexit
from collections.abc import Callable
import dataclasses
import functools
import os
import pickle
import runpy
import subprocess
import sys
import tempfile
from typing import Any

import fork_server

_SECONDS = 240
# XLA_FLAGS of processes that are given none.
FLAGS_VARIABLE = 'SHARDY_TEST_XLA_FLAGS'
# What a child that runs tests was told, is not for its own children.
_RUNTIME_PREFIXES = (fork_server.FOLDER_VARIABLE, 'SHARDY_TEST_REPORTS',
                     'PJRT_', 'XLA_', 'CONVERT_SHLO_TO_SHARDY', 'CPU_NUM_',
                     'NPROC', 'TPU_', 'PT_XLA_', 'PYTEST_')

servers = fork_server.ForkServers()
_called: list[float] = []
atexit.register(servers.close)


def clean_environment(**variables: str) -> dict[str, str]:
  """This process's environment without runtime settings, plus `variables`."""
  kept = {
      name: value
      for name, value in os.environ.items()
      if not name.startswith(_RUNTIME_PREFIXES)
  }
  if flags := kept.get(FLAGS_VARIABLE):
    kept['XLA_FLAGS'] = flags
  return {**kept, **variables}


@dataclasses.dataclass(frozen=True)
class Called:
  """What a function gave in a process of its own.

  Attributes:
    value: its result.
    stdout: what the process printed.
    stderr: likewise, warnings among it.
  """
  value: Any
  stdout: str
  stderr: str


def call(function: Callable[..., Any], *arguments: Any,
         **variables: str) -> Called:
  """Calls a function of a module in a child with these variables.

  The child has imported torch_xla, and its runtime is not up; see
  `fork_server`. Function, arguments and result have to be picklable.

  Raises:
    AssertionError: the child did not come to the function's end; with all that
      it printed.
  """
  with tempfile.NamedTemporaryFile() as result:
    job = functools.partial(_call, result.name, function, arguments)
    done = ended(job, **variables)
    if done.returncode != 0:
      raise AssertionError(f'{function.__name__}: exit status '
                           f'{done.returncode}\n{done.stdout}\n{done.stderr}')
    return Called(pickle.load(result), done.stdout, done.stderr)


def run_job(job: Callable[[], None],
            seconds: float = _SECONDS,
            **variables: str) -> fork_server.Ended:
  """Runs a job in a child with these variables."""
  end = servers.run(job, clean_environment(**variables), seconds)
  _called.append(end.cpu_seconds)
  return end


def ended(job: Callable[[], None],
          **variables: str) -> subprocess.CompletedProcess[str]:
  """The same, as of a command; one that does not end is an error."""
  end = run_job(job, **variables)
  stdout, stderr = (
      text.decode(errors='replace') for text in (end.stdout, end.stderr))
  assert end.status is not None, f'no end\n{stdout}\n{stderr}'
  return subprocess.CompletedProcess(job, end.status, stdout, stderr)


def command(module: str, *arguments: object,
            **variables: str) -> subprocess.CompletedProcess[str]:
  """`python -m module`, in a child that has imported torch_xla already."""
  return ended(
      functools.partial(_run_module, module, list(map(str, arguments))),
      **variables)


def _run_module(module: str, arguments: list[str]) -> None:
  sys.argv[1:] = arguments
  runpy.run_module(module, run_name='__main__', alter_sys=True)


def called_cpu_seconds() -> float:
  """What the children of these functions took until now."""
  return sum(_called)


def _call(path: str, function: Callable[..., Any],
          arguments: tuple[Any, ...]) -> None:
  value = function(*arguments)
  with open(path, 'wb') as file:
    pickle.dump(value, file)


def run_pytest(folder: str, arguments: list[str], variables: dict[str,
                                                                  str]) -> None:
  """What a child does that runs tests: ends with pytest's exit status."""
  import pytest
  os.chdir(folder)
  os.environ.update(variables)
  # What somebody adds to a session is for that one.
  os.environ.pop('PYTEST_ADDOPTS', None)
  sys.exit(pytest.main(arguments))


def run(script: str, **variables: str) -> subprocess.CompletedProcess:
  """Runs a script in a new process, for when starting one is the point."""
  return subprocess.run([sys.executable, '-c', script],
                        env=clean_environment(**variables),
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                        text=True,
                        timeout=_SECONDS,
                        check=False)


def error_of(script: str, **variables: str) -> str:
  """The last line of the exception that ends `script`."""
  done = run(script, **variables)
  assert done.returncode == 1, (done.returncode, done.stderr)
  return done.stderr.strip().splitlines()[-1]


def output_of(script: str, **variables: str) -> str:
  done = run(script, **variables)
  assert done.returncode == 0, done.stderr
  return done.stdout
