"""Building the shim and its test programs, for the tests of this folder."""

from __future__ import annotations

import dataclasses
import fcntl
import os
from pathlib import Path
import shutil
import subprocess
import tempfile

ROOT = Path(__file__).resolve().parents[2]
# The folder that a session shares with the test processes that it starts.
_FOLDER_VARIABLE = 'SHARDY_TEST_BUILD'
if _FOLDER_VARIABLE not in os.environ:
  _folder = tempfile.TemporaryDirectory(prefix='shim-build-')
  os.environ[_FOLDER_VARIABLE] = _folder.name

# Variants of the compile-only plugin: address and undefined behaviour, threads,
# and one without memory where a scenario says so.
AOT_SANITIZED = ('sanitized', 'threads', 'starved')


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
  stablehlo_plugin: Path
  aot_library: Path
  graph_identity: Path
  aot_fake: Path
  aot_driver: Path
  # By the name of a sanitized variant: library, fake plugin, driver.
  aot_sanitized: dict[str, tuple[Path, Path, Path]]


def clean_environment() -> dict[str, str]:
  """This process's environment without what steers shim or fake plugin."""
  return {
      name: value
      for name, value in os.environ.items()
      if not name.startswith(('PJRT_', 'FAKE_PLUGIN_', 'STABLEHLO_PLUGIN_',
                              'EXPECT_', 'LD_'))
  }


def build_once() -> Build:
  """Builds everything, unless this session did so in another process.

  Raises:
    AssertionError: the build fails; with Bazel's own words.
  """
  # Bazel takes seconds to find that there is nothing to do.
  folder = Path(os.environ[_FOLDER_VARIABLE])
  with open(folder / 'lock', 'w') as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    if not (folder / 'built').exists():
      _run_bazel()
      (folder / 'built').touch()
  output = ROOT / 'build/bazel-bin'
  tests = output / 'test/csrc'
  return Build(
      library=output / 'torch_xla/csrc/pjrt_shardy/libpjrt_shardy.so',
      sanitized_library=tests / 'libpjrt_shardy_sanitized.so',
      driver=tests / 'driver',
      sanitized_driver=tests / 'driver_sanitized',
      fake=tests / 'libfake_plugin.so',
      sanitized_fake=tests / 'libfake_plugin_sanitized.so',
      not_a_plugin=tests / 'libnot_a_plugin.so',
      stablehlo_plugin=tests / 'libstablehlo_plugin.so',
      aot_library=output / 'torch_xla/csrc/pjrt_aot/libpjrt_aot.so',
      graph_identity=(output / 'torch_xla/csrc/graph_identity' /
                      'libgraph_identity.so'),
      aot_fake=tests / 'libaot_fake_plugin.so',
      aot_driver=tests / 'aot_driver',
      aot_sanitized={
          name: (tests / f'libpjrt_aot_{name}.so',
                 tests / f'libaot_fake_plugin_{name}.so',
                 tests / f'aot_driver_{name}') for name in AOT_SANITIZED
      })


def _run_bazel() -> None:
  bazel = shutil.which(os.environ.get('BAZEL') or 'bazel')
  assert bazel, 'no bazel on the path: install it (Debian: bazel-bootstrap)'
  command = [
      bazel,
      '--batch',
      # As infra/wheel/plugins.py builds: what that compiled serves.
      f'--output_user_root={ROOT / "build" / "bazel-root"}',
      # Most of so short a run goes into the JVM's optimising compiler.
      '--host_jvm_args=-XX:TieredStopAtLevel=1',
      'build',
      '//torch_xla/csrc/graph_identity:all',
      '//torch_xla/csrc/pjrt_aot:all',
      '//torch_xla/csrc/pjrt_shardy:all',
      '//test/csrc:all'
  ]
  done = subprocess.run(
      command,
      cwd=ROOT,
      env=clean_environment(),
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      text=True,
      check=False)
  assert done.returncode == 0, done.stdout[-6000:]
