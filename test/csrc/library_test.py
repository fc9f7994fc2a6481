"""What the plugins show to, and need from, the machine they are on."""

from __future__ import annotations

from pathlib import Path
import re
import subprocess
from typing import NamedTuple

import pytest
from shim_build import Build, ROOT


class Library(NamedTuple):
  """A library, the prefix of its own functions, and its header."""
  path: Path
  prefix: str
  header: Path


EXPORTED = {
    'PjrtShardy_': {
        'CompileMessage', 'CompileProgram', 'CompiledProgram', 'DeviceKind',
        'Fail', 'FailReadback', 'KeepExecutable', 'LoadExecutable', 'Open',
        'PluginAttribute', 'ReplaceProgram', 'ReuseExecutable',
        'SerializedExecutable', 'SetCompileCallback', 'SetOptimizedProgram',
        'SetReadbackCallback', 'Version'
    },
    'PjrtAot_': {
        'EndStep', 'GetCounters', 'GetDevice', 'GetExecutions', 'GetProgram',
        'LastProgram', 'Open', 'Platform', 'SetMemoryLimit', 'TryCompile',
        'Version'
    },
}
# The wheel is tagged manylinux_2_28.
NEWEST_GLIBC = (2, 28)


@pytest.fixture(params=EXPORTED, name='library')
def library_fixture(request: pytest.FixtureRequest, build: Build) -> Library:
  path = {
      'PjrtShardy_': build.library,
      'PjrtAot_': build.aot_library
  }[request.param]
  name = path.name.removeprefix('lib').removesuffix('.so')
  return Library(path, request.param, ROOT / f'torch_xla/csrc/{name}/{name}.h')


def _output(*command: object) -> str:
  return subprocess.run([str(c) for c in command],
                        stdout=subprocess.PIPE,
                        text=True,
                        check=True).stdout


def test_exports_its_interface_only(library: Library) -> None:
  lines = _output('nm', '-D', '--defined-only', library.path).splitlines()
  own = {library.prefix + name for name in EXPORTED[library.prefix]}
  assert {line.split()[-1] for line in lines} == own | {'GetPjrtApi'}


def test_header_declares_what_is_exported(library: Library) -> None:
  code = re.sub('//.*', '', library.header.read_text())
  declared = set(re.findall(rf'\b{library.prefix}(\w+)\(', code))
  assert declared == EXPORTED[library.prefix]


def test_needs_no_newer_glibc(library: Library) -> None:
  text = _output('readelf', '--version-info', '--wide', library.path)
  versions = {
      tuple(map(int, v.split('.'))) for v in re.findall(r'GLIBC_([\d.]+)', text)
  }
  assert versions and max(versions) <= NEWEST_GLIBC


def test_needs_libc_and_libdl_only(library: Library) -> None:
  text = _output('readelf', '--dynamic', '--wide', library.path)
  needed = set(re.findall(r'\(NEEDED\).*\[(.*)\]', text))
  # Before 2.34 dlopen is in libdl.
  assert {'libc.so.6', 'libdl.so.2'} <= needed
  assert needed <= {'libc.so.6', 'libdl.so.2', 'ld-linux-x86-64.so.2'}
  assert re.findall(r'\(SONAME\).*\[(.*)\]', text) == [library.path.name]
  assert 'RUNPATH' not in text and 'RPATH' not in text


def test_has_nothing_of_the_machine_that_built_it(library: Library) -> None:
  data = library.path.read_bytes()
  home = str(ROOT).encode()
  assert home not in data and b'bazel-out' not in data and b'/tmp' not in data
  sections = _output('readelf', '--sections', '--wide', library.path)
  assert '.debug_info' not in sections and '.note.gnu.build-id' not in sections
