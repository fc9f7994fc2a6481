"""Our declarations of the PJRT ABI against a real plugin's header."""

from __future__ import annotations

import importlib.util
import mmap
from pathlib import Path
import re
import subprocess

import pytest
from shim_build import ROOT
from torch_xla_conformance.pjrt import structs

SHIM = 'torch_xla/csrc/pjrt_shardy/pjrt_abi.h'
AOT = 'torch_xla/csrc/pjrt_aot'
INC = 'torch_xla/shardy/pjrt_abi.inc'
# Structs that no function's name tells.
STRUCTS = {
    'NamedValue': 'PJRT_NamedValue',
    'Program': 'PJRT_Program',
    'ExecuteOptions': 'PJRT_ExecuteOptions',
    'ShapeSpec': 'PJRT_ShapeSpec',
    'BufferMemoryLayout': 'PJRT_Buffer_MemoryLayout',
    'BufferMemoryLayoutTiled': 'PJRT_Buffer_MemoryLayout_Tiled',
}
# What the plugin's header, of 0.81, cannot tell yet: where it came later.
LATER_FIELDS = {'multi_slice_config': 97}


def _constants(code: str, prefix: str) -> dict[str, int]:
  found = re.findall(rf'\b({prefix}\w+) = (\d+)', code)
  return {name: int(value) for name, value in found}


def _upper(camel: str) -> str:
  return re.sub('(?<!^)(?=[A-Z])', '_', camel).upper()


def _slots() -> list[tuple[str, ...]]:
  """The names of all entries, in order: ('Client', 'Create')."""
  found = re.findall(
      r'(?m)^ABI_(?:FUNCTION|BARE)\(\w+, (\w+)(?:, (\w+)(?=[,)]))?',
      (ROOT / INC).read_text())
  return [tuple(filter(None, name)) for name in found]


def _assertions(minor: int, their_slots: list[str]) -> str:
  """C that compiles only if our headers agree with a header of 0.`minor`."""
  code = re.sub('//.*', '', (ROOT / SHIM).read_text())
  lines = []

  def same(ours: str, theirs: str) -> None:
    lines.append(f'_Static_assert(({ours}) == ({theirs}), "{ours}: {theirs}");')

  ours_of = {'_'.join(name): ''.join(name) for name in _slots()}
  for name in structs.names():
    fields = [field for field, *_ in structs.struct(name)._fields_]
    is_later = name in ours_of and f'PJRT_{name}' not in their_slots
    if len(fields) == 2 or is_later:
      continue
    ours = f'Abi{ours_of[name]}Args' if name in ours_of else f'Abi{name}'
    theirs = STRUCTS.get(name) or f'PJRT_{name}_Args'
    told = [f for f in fields if LATER_FIELDS.get(f, 0) <= minor]
    for field in told:
      same(f'offsetof({ours}, {field})', f'offsetof({theirs}, {field})')
      same(f'sizeof((({ours}*)0)->{field})', f'sizeof((({theirs}*)0)->{field})')
    if told == fields:
      same(f'ABI_SIZE({ours}, {fields[-1]})', f'{theirs}_STRUCT_SIZE')
  same('offsetof(AbiApi, struct_size)', 'offsetof(PJRT_Api, struct_size)')
  same('offsetof(AbiApi, extension_start)',
       'offsetof(PJRT_Api, extension_start)')
  same('offsetof(AbiApi, version)', 'offsetof(PJRT_Api, pjrt_api_version)')
  for name, theirs in zip(_slots(), their_slots):
    slot = 'kSlot' + ''.join(name)
    same(f'offsetof(AbiApi, slots) + {slot} * sizeof(AbiFunction)',
         f'offsetof(PJRT_Api, {theirs})')
  for name in _constants(code, 'kAbiValue'):
    same(name, 'PJRT_NamedValue_k' + name.removeprefix('kAbiValue'))
  for name in _constants(code, 'kAbiType'):
    same(name, 'PJRT_Buffer_Type_' + name.removeprefix('kAbiType').upper())
  codes = _constants(code, 'kAbi')
  same(f'{codes.pop("kAbiMajor")}', 'PJRT_API_MAJOR')
  same(f'{codes.pop("kAbiLastCode")}', 'PJRT_Error_Code_UNAUTHENTICATED')
  for name in codes:
    if not name.endswith('Minor') and not name.startswith(
        ('kAbiValue', 'kAbiType')):
      same(name, 'PJRT_Error_Code_' + _upper(name.removeprefix('kAbi')))
  return '\n'.join(lines)


@pytest.fixture(scope='module')
def include(inner_path: str) -> Path:
  folder = Path(inner_path).parent / 'include'
  assert (folder / 'pjrt_c_api.h').is_file()
  return folder


def _compile(include: Path,
             assertions: str) -> subprocess.CompletedProcess[str]:
  source = f'#include "pjrt_c_api.h"\n#include "{SHIM}"\n{assertions}'
  return subprocess.run([
      'gcc', '-std=c11', '-fsyntax-only', f'-I{include}', f'-I{ROOT}', '-x',
      'c', '-'
  ],
                        input=source,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT,
                        text=True,
                        check=False)


def _header(include: Path) -> str:
  return (include / 'pjrt_c_api.h').read_text()


def _minor(include: Path) -> int:
  return int(re.findall(r'#define PJRT_API_MINOR (\d+)', _header(include))[0])


def _their_slots(include: Path) -> list[str]:
  found = re.findall(r'_PJRT_API_STRUCT_FIELD\(\s*(PJRT_\w+)\s*\);',
                     _header(include))
  assert len(found) > 100
  return found


def test_layout_is_that_of_the_plugins_header(include: Path) -> None:
  assertions = _assertions(_minor(include), _their_slots(include))
  assert assertions.count('_Static_assert') > 500
  done = _compile(include, assertions)
  assert done.returncode == 0, done.stdout


def test_a_wrong_layout_is_seen(include: Path) -> None:
  wrong = _assertions(_minor(include), _their_slots(include)).replace(
      'kSlotClientCompile *', '(kSlotClientCompile + 1) *')
  done = _compile(include, wrong)
  assert done.returncode != 0
  assert 'PJRT_Client_Compile' in done.stdout


def test_entries_are_named_as_in_the_plugins_header(include: Path) -> None:
  theirs = _their_slots(include)
  assert ['_'.join(('PJRT', *name)) for name in _slots()
         ][:len(theirs)] == theirs


@pytest.mark.nightly
def test_later_entries_are_named_as_in_libtpu(include: Path) -> None:
  """What is newer than that header: libtpu names the structs that it checks."""
  spec = importlib.util.find_spec('libtpu')
  if spec is None or not spec.submodule_search_locations:
    pytest.skip('libtpu is not installed')
  later = _slots()[len(_their_slots(include)):]
  library = Path(spec.submodule_search_locations[0]) / 'libtpu.so'
  with library.open('rb') as file:
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as code:
      names = ['_'.join(('PJRT', *name, 'Args')) for name in later]
      assert [name for name in names if code.find(name.encode()) < 0] == []


def test_plugin_announces_the_version_of_that_header(include: Path) -> None:
  code = (ROOT / AOT / 'table.c').read_text()
  announced = int(re.findall(r'kAnnouncedMinor = (\d+)', code)[0])
  assert announced == _minor(include)


def test_element_types_are_those_of_the_plugins_header(include: Path) -> None:
  code = (ROOT / AOT / 'buffers.c').read_text()
  table = re.search(r'sizes\[\] = \{(.*?)\};', code, re.DOTALL)[1]
  ours = ' '.join(re.findall('// (.*)', table)).split()
  assert len(ours) == table.count(',')
  theirs = re.findall(r'^  PJRT_Buffer_Type_(\w+)(?: = 0)?,', _header(include),
                      re.MULTILINE)
  assert len(theirs) == 30
  assert ours[:30] == [name.lower() for name in theirs]
  assert ours[30:] == ['s1', 'u1']  # from 0.94
