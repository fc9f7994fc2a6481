"""What libpjrt_shardy.so shows to, and needs from, the machine it is on."""

import re
import subprocess

from shim_build import Build, ROOT

EXPORTED = {
    'GetPjrtApi', 'PjrtShardy_CompileMessage', 'PjrtShardy_CompileProgram',
    'PjrtShardy_CompiledProgram', 'PjrtShardy_Fail', 'PjrtShardy_FailReadback',
    'PjrtShardy_LoadExecutable', 'PjrtShardy_Open',
    'PjrtShardy_PluginAttribute', 'PjrtShardy_ReplaceProgram',
    'PjrtShardy_SerializedExecutable', 'PjrtShardy_SetCompileCallback',
    'PjrtShardy_SetOptimizedProgram', 'PjrtShardy_SetReadbackCallback',
    'PjrtShardy_Version'
}
# The wheel is tagged manylinux_2_28.
NEWEST_GLIBC = (2, 28)


def _output(*command: object) -> str:
  return subprocess.run([str(c) for c in command],
                        stdout=subprocess.PIPE,
                        text=True,
                        check=True).stdout


def test_exports_its_interface_only(build: Build) -> None:
  lines = _output('nm', '-D', '--defined-only', build.library).splitlines()
  assert {line.split()[-1] for line in lines} == EXPORTED


def test_header_declares_what_is_exported() -> None:
  header = ROOT / 'torch_xla/csrc/pjrt_shardy/pjrt_shardy.h'
  code = re.sub('//.*', '', header.read_text())
  declared = set(re.findall(r'\b(PjrtShardy_\w+)\(', code))
  assert declared | {'GetPjrtApi'} == EXPORTED


def test_needs_no_newer_glibc(build: Build) -> None:
  text = _output('readelf', '--version-info', '--wide', build.library)
  versions = {
      tuple(map(int, v.split('.'))) for v in re.findall(r'GLIBC_([\d.]+)', text)
  }
  assert versions and max(versions) <= NEWEST_GLIBC


def test_needs_libc_and_libdl_only(build: Build) -> None:
  text = _output('readelf', '--dynamic', '--wide', build.library)
  needed = set(re.findall(r'\(NEEDED\).*\[(.*)\]', text))
  # Before 2.34 dlopen is in libdl.
  assert {'libc.so.6', 'libdl.so.2'} <= needed
  assert needed <= {'libc.so.6', 'libdl.so.2', 'ld-linux-x86-64.so.2'}
  assert re.findall(r'\(SONAME\).*\[(.*)\]', text) == ['libpjrt_shardy.so']
  assert 'RUNPATH' not in text and 'RPATH' not in text


def test_has_nothing_of_the_machine_that_built_it(build: Build) -> None:
  data = build.library.read_bytes()
  home = str(ROOT).encode()
  assert home not in data and b'bazel-out' not in data and b'/tmp' not in data
  sections = _output('readelf', '--sections', '--wide', build.library)
  assert '.debug_info' not in sections and '.note.gnu.build-id' not in sections
