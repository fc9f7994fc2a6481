"""Which files of the checkout a series is made of, besides its patches."""

from pathlib import Path

from infra.patchset.manifest import Manifest, matches
from infra.wheel.overlay import own_files, test_files


def overlay_of(root: Path, manifest: Manifest, name: str) -> list[str]:
  """The files under torch_xla/ of the series `name`."""
  return [p for p in own_files(root) if manifest.owners_of_overlay(p) == [name]]


def tests_of(root: Path, manifest: Manifest, name: str) -> list[str]:
  """The files under test/ of the series `name`."""
  return [p for p in test_files(root) if manifest.owners_of_test(p) == [name]]


def test_base(root: Path, manifest: Manifest) -> list[str]:
  """The test tools that every series carries."""
  return [
      path for path in test_files(root) if any(
          matches(pattern, path) for pattern in manifest.test_base)
  ]
