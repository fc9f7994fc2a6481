"""Fixtures of the tools' tests: the official wheel, ours, and a project."""

from pathlib import Path

from infra_project import Project
from infra_project import ROOT
import pytest

from infra.wheel import official
from infra.wheel.build import build_wheel
from infra.wheel.build import running_python


@pytest.fixture(scope='session')
def official_wheel() -> Path:
  """The official wheel for this Python, checked."""
  return official.official_wheel(running_python(), official.default_cache(ROOT),
                                 print)


@pytest.fixture(scope='session')
def built(tmp_path_factory) -> Path:
  """The checkout's wheel, built for real."""
  return build_wheel(ROOT, tmp_path_factory.mktemp('dist'))


@pytest.fixture
def project(tmp_path, official_wheel) -> Project:
  """A project without series."""
  return Project(tmp_path / 'project', official_wheel)
