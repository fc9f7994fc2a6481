"""Building the family of wrong plugins, without Bazel; see wrong_plugin.h."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
import re
import subprocess
import tempfile

ROOT = Path(__file__).resolve().parents[2]
_SOURCES = (*sorted((ROOT / 'test/csrc/wrong_plugin').glob('*.c')),
            ROOT / 'test/csrc/plugin_core.c')
_HEADERS = (ROOT / 'test/csrc/plugin_core.h', *sorted(
    (ROOT / 'test/csrc/wrong_plugin').glob('*.h')), *sorted(
        (ROOT / 'torch_xla/csrc').glob('*/*.h')))
_COMMAND = ('gcc', '-std=c11', '-D_GNU_SOURCE', '-Wall', '-Wextra',
            '-Wmissing-prototypes', '-Wstrict-prototypes', '-Werror', '-O1',
            '-g', '-fPIC', '-shared', '-fvisibility=hidden')


def build_once() -> Path:
  """The library, compiled unless there is one of the same sources.

  Raises:
    AssertionError: it does not compile; with the compiler's own words.
  """
  digest = hashlib.sha256(repr(_COMMAND).encode())
  for path in (*_SOURCES, *_HEADERS):
    digest.update(path.read_bytes())
  folder = ROOT / 'build/wrong_plugin'
  library = folder / f'libwrong_plugin-{digest.hexdigest()[:16]}.so'
  if library.exists():
    return library
  folder.mkdir(parents=True, exist_ok=True)
  with tempfile.TemporaryDirectory(dir=folder) as scratch:
    made = Path(scratch, 'plugin.so')
    done = subprocess.run(
        [*_COMMAND, f'-I{ROOT}', '-o', made, *_SOURCES, '-ldl', '-lpthread'],
        capture_output=True,
        text=True,
        check=False)
    assert done.returncode == 0, done.stderr[-6000:]
    os.replace(made, library)
  return library


def link(folder: Path,
         inner: str,
         fault: str = 'right',
         opcode: str = '') -> Path:
  """A wrong plugin in a folder: the library by the name that says which.

  Args:
    inner: the real plugin before which all those of the folder stand.
  """
  path = folder / f'{fault}{"@" if opcode else ""}{opcode}.so'
  for name, target in ((path, build_once()), (folder / 'inner.so', inner)):
    if not name.is_symlink():
      name.symlink_to(target)
  return path


def faults() -> list[str]:
  """The names of all."""
  return [
      name for path in _SOURCES for name in re.findall(
          r'(?:FAULT\(\s*|\.name = )"([^"]+)"', path.read_text())
  ]
