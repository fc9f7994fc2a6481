"""Builds the shim and its test programs with Bazel, once."""

import pytest
from shim_build import Build, build_once


@pytest.fixture(scope='session')
def build() -> Build:
  return build_once()
