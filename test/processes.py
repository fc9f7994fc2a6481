"""Runs scripts in processes that have just the runtime settings asked for."""

import os
import subprocess
import sys
from typing import Dict

_SECONDS = 240
_RUNTIME_PREFIXES = ('PJRT_', 'XLA_', 'CONVERT_SHLO_TO_SHARDY', 'CPU_NUM_',
                     'NPROC', 'TPU_', 'PT_XLA_')


def clean_environment(**variables: str) -> Dict[str, str]:
  """This process's environment without runtime settings, plus `variables`."""
  kept = {
      name: value
      for name, value in os.environ.items()
      if not name.startswith(_RUNTIME_PREFIXES)
  }
  return {**kept, **variables}


def run(script: str, **variables: str) -> subprocess.CompletedProcess:
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
