"""What all tests have: children, tiers, and a budget of CPU seconds."""

from __future__ import annotations

import os
import signal
import sys

import pytest

# Upstream's test/ is a package, so there pytest does not put it on the path.
sys.path.insert(0, os.path.dirname(__file__))

from budget import Budget
import children
from cpu_seconds import CpuSeconds, module_of
import fork_server
import processes
import tiers

_KEY = pytest.StashKey[CpuSeconds]()


def pytest_addoption(parser: pytest.Parser) -> None:
  parser.addoption(
      '--cpu-seconds',
      metavar='FILE',
      help='where to write the CPU seconds of each module, as JSON')
  tiers.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
  # A shell has what it starts in the background ignore it, and so children do.
  if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
  tiers.configure(config)
  tier = config.getoption('--tier')
  counted = CpuSeconds()
  children.configure(
      config, [f'--tier={tier}'] if tier else [],
      lambda node, seconds: counted.add(module_of(node), seconds))
  if children.is_child():
    return
  config.stash[_KEY] = counted
  for plugin in (tiers, counted):
    config.pluginmanager.register(plugin)
  # By name, for `-p no:budget`.
  config.pluginmanager.register(Budget(config, counted), 'budget')
  if tier == tiers.ALL:
    os.environ[fork_server.END_VARIABLE] = 'whole'
  else:
    # Compiling is most of what tests take, and what is compiled runs once.
    os.environ[processes.FLAGS_VARIABLE] = (
        '--xla_backend_optimization_level=0 '
        '--xla_llvm_disable_expensive_passes=true')
    os.environ.setdefault('XLA_FLAGS', os.environ[processes.FLAGS_VARIABLE])


@pytest.fixture(scope='module', name='spmd')
def spmd_fixture() -> None:
  """SPMD, before the first device."""
  import torch_xla.runtime as xr
  xr.use_spmd()


@pytest.fixture(scope='module', name='mesh')
def mesh_fixture(spmd: None):
  """A mesh of two by four devices, with axes x and y."""
  import numpy as np
  import torch_xla.distributed.spmd as xs
  return xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))


# When the children have closed their servers.
@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
  path = config.getoption('--cpu-seconds')
  if path and _KEY in config.stash:
    config.stash[_KEY].write(path)
