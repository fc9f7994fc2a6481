"""Building the shim and its test programs, for the tests of this folder."""

import dataclasses
import os
from pathlib import Path
import shutil
import subprocess
from typing import Dict

ROOT = Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
class Build:
  """Where Bazel put what the tests of this folder run."""
  library: Path
  sanitized_library: Path
  driver: Path
  sanitized_driver: Path
  fake: Path
  sanitized_fake: Path
  not_a_plugin: Path


def clean_environment() -> Dict[str, str]:
  """This process's environment without what steers shim or fake plugin."""
  return {
      name: value
      for name, value in os.environ.items()
      if not name.startswith(('PJRT_', 'FAKE_PLUGIN_', 'EXPECT_', 'LD_'))
  }


def run_bazel() -> Build:
  """Builds everything; fails with Bazel's own words."""
  bazel = shutil.which(os.environ.get('BAZEL') or 'bazel')
  assert bazel, 'no bazel on the path: install it (Debian: bazel-bootstrap)'
  done = subprocess.run([
      bazel, '--batch', 'build', '//torch_xla/csrc/pjrt_shardy:all',
      '//test/csrc:all'
  ],
                        cwd=ROOT,
                        env=clean_environment(),
                        stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT,
                        text=True,
                        check=False)
  assert done.returncode == 0, done.stdout[-6000:]
  output = ROOT / 'build/bazel-bin'
  tests = output / 'test/csrc'
  return Build(
      library=output / 'torch_xla/csrc/pjrt_shardy/libpjrt_shardy.so',
      sanitized_library=tests / 'libpjrt_shardy_sanitized.so',
      driver=tests / 'driver',
      sanitized_driver=tests / 'driver_sanitized',
      fake=tests / 'libfake_plugin.so',
      sanitized_fake=tests / 'libfake_plugin_sanitized.so',
      not_a_plugin=tests / 'libnot_a_plugin.so')
