"""What the libraries show to, and need from, the machine they are on."""

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
        'CompileMessage', 'CompileProgram', 'CompiledMemory', 'CompiledProgram',
        'DeviceKind', 'Fail', 'KeepExecutable', 'LeaveFirstThread',
        'LoadExecutable', 'Open', 'PluginAttribute', 'ReuseExecutable',
        'SerializedExecutable', 'SetCompileCallback', 'SetOptimizedProgram',
        'Version'
    },
    'PjrtAot_': {
        'EndStep', 'GetCounters', 'GetDevice', 'GetExecutions', 'GetProgram',
        'LastProgram', 'Open', 'Platform', 'SetDonated', 'SetMemoryLimit',
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


@pytest.fixture(
    params=['library', 'aot_library', 'graph_identity'], name='path')
def path_fixture(request: pytest.FixtureRequest, build: Build) -> Path:
  return getattr(build, request.param)


def _output(*command: object) -> str:
  return subprocess.run([str(c) for c in command],
                        stdout=subprocess.PIPE,
                        text=True,
                        check=True).stdout


def _exports(path: Path) -> set[str]:
  lines = _output('nm', '-D', '--defined-only', path).splitlines()
  return {line.split()[-1] for line in lines}


def test_exports_its_interface_only(library: Library) -> None:
  own = {library.prefix + name for name in EXPORTED[library.prefix]}
  assert _exports(library.path) == own | {'GetPjrtApi'}


def test_exports_what_stands_before_torch_only(build: Build) -> None:
  assert _exports(build.graph_identity) == {
      'graph_identity_parameters',
      '_ZN5torch4lazy17LazyGraphExecutor12RunPostOrderERKSt6vectorINS0_'
      '5ValueESaIS3_EEPNS1_20SyncTensorCollectionE'
  }


def test_header_declares_what_is_exported(library: Library) -> None:
  code = re.sub('//.*', '', library.header.read_text())
  declared = set(re.findall(rf'\b{library.prefix}(\w+)\(', code))
  assert declared == EXPORTED[library.prefix]


def test_needs_no_newer_glibc(path: Path) -> None:
  text = _output('readelf', '--version-info', '--wide', path)
  versions = {
      tuple(map(int, v.split('.'))) for v in re.findall(r'GLIBC_([\d.]+)', text)
  }
  assert versions and max(versions) <= NEWEST_GLIBC


def test_needs_libc_and_libdl_only(path: Path) -> None:
  text = _output('readelf', '--dynamic', '--wide', path)
  needed = set(re.findall(r'\(NEEDED\).*\[(.*)\]', text))
  # Before 2.34 dlopen is in libdl.
  assert {'libc.so.6', 'libdl.so.2'} <= needed
  assert needed <= {'libc.so.6', 'libdl.so.2', 'ld-linux-x86-64.so.2'}
  assert re.findall(r'\(SONAME\).*\[(.*)\]', text) == [path.name]
  assert 'RUNPATH' not in text and 'RPATH' not in text


def test_has_nothing_of_the_machine_that_built_it(path: Path) -> None:
  data = path.read_bytes()
  home = str(ROOT).encode()
  assert home not in data and b'bazel-out' not in data and b'/tmp' not in data
  sections = _output('readelf', '--sections', '--wide', path)
  assert '.debug_info' not in sections and '.note.gnu.build-id' not in sections
