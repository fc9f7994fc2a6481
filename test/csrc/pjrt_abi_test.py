"""Our declarations of the PJRT ABI against a real plugin's header."""

from __future__ import annotations

from pathlib import Path
import re
import subprocess

import pytest
from shim_build import ROOT

SHIM = 'torch_xla/csrc/pjrt_shardy/pjrt_abi.h'
AOT = 'torch_xla/csrc/pjrt_aot'
HEADERS = (SHIM, f'{AOT}/abi.h', f'{AOT}/abi_buffer.h', f'{AOT}/abi_client.h',
           f'{AOT}/abi_device.h', f'{AOT}/abi_executable.h')
SLOTS = f'{AOT}/slots.h'
# What the names of a function begin with; the longest first.
PARTS = ('TopologyDescription', 'DeviceDescription', 'LoadedExecutable',
         'Executable', 'Plugin', 'Client', 'Device', 'Memory', 'Buffer',
         'Event', 'Error')
# Ours and theirs where ours is not named as theirs is, as AbiClientCreateArgs.
# Fields of the same name must be in the same place.
STRUCTS = {
    'AbiNamedValue': 'PJRT_NamedValue',
    'AbiProgram': 'PJRT_Program',
    'AbiCompileArgs': 'PJRT_Client_Compile_Args',
    'AbiGetExecutableArgs': 'PJRT_LoadedExecutable_GetExecutable_Args',
    'AbiOptimizedProgramArgs': 'PJRT_Executable_OptimizedProgram_Args',
    'AbiSerializeArgs': 'PJRT_Executable_Serialize_Args',
    'AbiDeserializeAndLoadArgs': 'PJRT_Executable_DeserializeAndLoad_Args',
    'AbiExecuteOptions': 'PJRT_ExecuteOptions',
    'AbiExecuteArgs': 'PJRT_LoadedExecutable_Execute_Args',
    'AbiTopologyCompileArgs': 'PJRT_Compile_Args',
    'AbiBufferMemoryLayout': 'PJRT_Buffer_MemoryLayout',
    'AbiBufferMemoryLayoutTiled': 'PJRT_Buffer_MemoryLayout_Tiled',
    'AbiVersion': 'PJRT_Api_Version',
}
# Fields whose names are ours too.
RENAMED_FIELDS = {
    'overridden_compile_options':
        'overridden_serialized_compile_options',
    'overridden_compile_options_size':
        'overridden_serialized_compile_options_size',
}
# What the plugin's header, of 0.81, cannot tell yet: where these came later.
LATER_STRUCTS = {'AbiErrorForEachPayloadArgs': 99}
LATER_FIELDS = {('AbiExecuteOptions', 'multi_slice_config'): 97}
# Structs of which ours is the beginning only.
OPEN_ENDED = ('AbiErrorForEachPayloadArgs', 'AbiClientCreateArgs',
              'AbiDeviceMemoryStatsArgs')


def _structs(code: str) -> dict[str, str]:
  found = re.findall(r'typedef struct \{(.*?)\} (\w+);', code, re.DOTALL)
  return {name: body for body, name in found}


def _constants(code: str, prefix: str) -> dict[str, int]:
  found = re.findall(rf'\b({prefix}\w+) = (\d+)', code)
  return {name: int(value) for name, value in found}


def _upper(camel: str) -> str:
  return re.sub('(?<!^)(?=[A-Z])', '_', camel).upper()


def _theirs(struct: str) -> str:
  """Their name of a struct of arguments: PJRT_Client_Create_Args."""
  return STRUCTS.get(struct) or _function(
      struct.removeprefix('Abi').removesuffix('Args')) + '_Args'


def _function(name: str) -> str:
  """Their name of a function: ClientCreate is PJRT_Client_Create."""
  for part in PARTS:
    if name.startswith(part) and name != part:
      return f'PJRT_{part}_{name.removeprefix(part)}'
  return f'PJRT_{name}'


def _slots() -> list[tuple[str, ...]]:
  """The names of all entries, in order: ('Client', 'Create')."""
  code = re.sub('//.*', '', (ROOT / SLOTS).read_text())
  begin = code.index('#define PJRT_AOT_SLOTS')
  found = re.findall(r'^  [A-Z]+\(([^()]*)\)', code[begin:], re.MULTILINE)
  return [tuple(name.split(', ')) for name in found]


def _assertions(minor: int, their_slots: list[str]) -> str:
  """C that compiles only if our headers agree with a header of 0.`minor`."""
  code = ''.join((ROOT / header).read_text() for header in HEADERS)
  code = re.sub('//.*', '', code)
  lines = []

  def same(ours: str, theirs: str) -> None:
    lines.append(f'_Static_assert(({ours}) == ({theirs}), "{ours}: {theirs}");')

  structs = _structs(code)
  assert {*STRUCTS, 'AbiApi'} <= set(structs)
  for ours in set(structs) - {'AbiApi'}:
    if LATER_STRUCTS.get(ours, 0) > minor:
      continue
    theirs = _theirs(ours)
    whole = ours not in OPEN_ENDED
    last = 'extension_start'
    # A field, or a pointer to a function.
    for field in re.findall(r'(\w+)(?:\)\([^()]*\))?;', structs[ours]):
      if LATER_FIELDS.get((ours, field), 0) > minor:
        whole = False
        continue
      their = RENAMED_FIELDS.get(field, field)
      same(f'offsetof({ours}, {field})', f'offsetof({theirs}, {their})')
      same(f'sizeof((({ours}*)0)->{field})', f'sizeof((({theirs}*)0)->{their})')
      last = field
    if whole:
      same(f'ABI_SIZE({ours}, {last})', f'{theirs}_STRUCT_SIZE')
  same('offsetof(AbiApi, struct_size)', 'offsetof(PJRT_Api, struct_size)')
  same('offsetof(AbiApi, extension_start)',
       'offsetof(PJRT_Api, extension_start)')
  same('offsetof(AbiApi, version)', 'offsetof(PJRT_Api, pjrt_api_version)')
  for name, theirs in zip(_slots(), their_slots):
    slot = 'kAotSlot' + ''.join(name)
    same(f'offsetof(AbiApi, slots) + {slot} * sizeof(AbiFunction)',
         f'offsetof(PJRT_Api, {theirs})')
  shims = _constants(code, 'kSlot')
  assert len(shims) == 18
  for name in shims:
    same(name, f'kAotSlot{name.removeprefix("kSlot")}')
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
  includes = ['pjrt_c_api.h', *HEADERS, SLOTS]
  source = ''.join(f'#include "{name}"\n' for name in includes) + assertions
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
  found = re.findall(r'_PJRT_API_STRUCT_FIELD\((PJRT_\w+)\);', _header(include))
  assert len(found) > 100
  return found


def test_layout_is_that_of_the_plugins_header(include: Path) -> None:
  assertions = _assertions(_minor(include), _their_slots(include))
  assert assertions.count('_Static_assert') > 500
  done = _compile(include, assertions)
  assert done.returncode == 0, done.stdout


def test_a_wrong_layout_is_seen(include: Path) -> None:
  wrong = _assertions(_minor(include), _their_slots(include)).replace(
      'kAotSlotClientCompile *', '(kAotSlotClientCompile + 1) *')
  done = _compile(include, wrong)
  assert done.returncode != 0
  assert 'PJRT_Client_Compile' in done.stdout


def test_entries_are_named_as_in_the_plugins_header(include: Path) -> None:
  theirs = _their_slots(include)
  assert ['_'.join(('PJRT', *name)) for name in _slots()
         ][:len(theirs)] == theirs


def test_plugin_announces_the_version_of_that_header(include: Path) -> None:
  code = (ROOT / AOT / 'table.c').read_text()
  announced = int(re.findall(r'kAnnouncedMinor = (\d+)', code)[0])
  assert announced == _minor(include)


def test_element_types_are_those_of_the_plugins_header(include: Path) -> None:
  code = (ROOT / AOT / 'element_types.c').read_text()
  ours = re.findall(r'\{"(\w+)", \d+, \d+\}', code)
  theirs = re.findall(r'^  PJRT_Buffer_Type_(\w+)(?: = 0)?,', _header(include),
                      re.MULTILINE)
  assert len(theirs) == 30
  assert ours[:30] == [name.lower() for name in theirs]
  assert ours[30:] == ['s1', 'u1']  # from 0.94
