"""What all tests have: children, tiers, and budgets of CPU seconds."""

from __future__ import annotations

import os
import sys

import pytest

# Upstream's test/ is a package, so there pytest does not put it on the path.
sys.path.insert(0, os.path.dirname(__file__))

from budgets import Budgets
import children
from cpu_seconds import CpuSeconds
from cpu_seconds import module_of
import fork_server
import tiers

_KEY = pytest.StashKey[CpuSeconds]()


def pytest_addoption(parser: pytest.Parser) -> None:
  parser.addoption(
      '--cpu-seconds',
      metavar='FILE',
      help='where to write the CPU seconds of each module, as JSON')
  tiers.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
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
  # By name, for `-p no:budgets`.
  config.pluginmanager.register(Budgets(config, counted), 'budgets')
  if tier == tiers.ALL:
    os.environ[fork_server.END_VARIABLE] = 'whole'


# When the children have closed their servers.
@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
  path = config.getoption('--cpu-seconds')
  if path and _KEY in config.stash:
    config.stash[_KEY].write(path)
