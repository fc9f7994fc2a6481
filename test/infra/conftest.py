"""Fixtures of the tools' tests: the official wheel, ours, and a project."""

from pathlib import Path
import shutil

from infra_project import (add_bases, make_sources, Project, ROOT)
import pytest
from small_wheels import small_official, Workshop

from infra.wheel import official, plugins
from infra.wheel.build import build_wheel, running_python


@pytest.fixture(scope='session')
def official_wheel() -> Path:
  """The official wheel for this Python, checked."""
  return official.official_wheel(running_python(), official.default_cache(ROOT),
                                 print)


@pytest.fixture(scope='session')
def built_plugins() -> dict[str, bytes]:
  """The plugins in C, built for real."""
  return plugins.build_plugins(ROOT, plugins.find_bazel())


@pytest.fixture(scope='session')
def built(built_plugins, tmp_path_factory) -> Path:
  """The checkout's wheel."""
  return build_wheel(
      ROOT, tmp_path_factory.mktemp('dist'), built_plugins=built_plugins)


@pytest.fixture
def project(tmp_path, official_wheel) -> Project:
  """A project without series."""
  return Project(tmp_path / 'project', official_wheel)


@pytest.fixture(scope='session')
def sources_template(tmp_path_factory) -> Path:
  """A small upstream with more than a release."""
  return make_sources(tmp_path_factory.mktemp('sources') / 'xla')


@pytest.fixture
def sources(sources_template, project, tmp_path) -> Path:
  """That checkout, for one test; `project` has its bases."""
  add_bases(project, sources_template)
  return shutil.copytree(sources_template, tmp_path / 'sources')


@pytest.fixture(scope='session')
def small_official_wheel(official_wheel, tmp_path_factory) -> Path:
  """The official wheel with a small extension module."""
  return small_official(official_wheel, tmp_path_factory.mktemp('official'))


@pytest.fixture
def workshop(tmp_path, small_official_wheel) -> Workshop:
  """A project with one series and one file, whose wheels are built quickly."""
  return Workshop.of(tmp_path, small_official_wheel)


@pytest.fixture(scope='session')
def built_once(small_official_wheel, tmp_path_factory) -> Path:
  """What every new workshop builds."""
  folder = tmp_path_factory.mktemp('once')
  return Workshop.of(folder, small_official_wheel).build()


@pytest.fixture
def wheel(workshop, built_once) -> Path:
  """The workshop's wheel: the same inputs give the same bytes."""
  workshop.dist.mkdir()
  return shutil.copy(built_once, workshop.dist / built_once.name)
