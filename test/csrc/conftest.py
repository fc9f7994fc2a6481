"""Builds the shim and its test programs with Bazel, once."""

import pytest
from shim_build import Build, run_bazel


@pytest.fixture(scope='session')
def build() -> Build:
  return run_bazel()
