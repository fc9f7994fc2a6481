"""Builds the shim and its test programs with Bazel, once."""

import importlib.util
from pathlib import Path

import pytest
from shim_build import Build, build_once


@pytest.fixture(scope='session')
def build() -> Build:
  return build_once()


@pytest.fixture(scope='session')
def inner_path() -> str:
  """XLA's CPU plugin, for others to stand before."""
  try:
    spec = importlib.util.find_spec('xla_plugins.xla_cpu_pjrt')
  except ModuleNotFoundError:
    spec = None
  if spec is None:
    pytest.skip('xla-cpu-pjrt, the plugin that this wraps, is not installed')
  path = Path(spec.submodule_search_locations[0]) / 'xla_cpu_pjrt.so'
  assert path.is_file()
  return str(path)
