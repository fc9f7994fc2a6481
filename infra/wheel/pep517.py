"""The build backend of pyproject.toml: `pip wheel .` and `pip install .`."""

from pathlib import Path
from typing import Any

from infra.errors import BuildError
from infra.wheel.build import build_wheel as build

_ROOT = Path(__file__).resolve().parents[2]


def build_wheel(wheel_directory: str,
                config_settings: dict[str, Any] | None = None,
                metadata_directory: str | None = None) -> str:
  """Builds the wheel for the running Python and returns its file name."""
  del config_settings, metadata_directory
  try:
    return build(_ROOT, Path(wheel_directory)).name
  except BuildError as error:
    raise SystemExit(f'error: {error}') from None


def build_sdist(sdist_directory: str,
                config_settings: dict[str, Any] | None = None) -> str:
  """Refuses: the checkout is the source."""
  del sdist_directory, config_settings
  raise SystemExit('error: this project has no source distribution. '
                   'Build a wheel: python setup.py bdist_wheel')
