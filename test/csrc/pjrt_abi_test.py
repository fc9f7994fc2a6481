"""Our declarations of the PJRT ABI against a real plugin's header."""

from __future__ import annotations

from pathlib import Path
import re
import subprocess

import pytest
from shim_build import ROOT

HEADER = ROOT / 'torch_xla/csrc/pjrt_shardy/pjrt_abi.h'
# Ours and theirs. Fields of the same name must be in the same place.
STRUCTS = {
    'AbiErrorDestroyArgs': 'PJRT_Error_Destroy_Args',
    'AbiErrorMessageArgs': 'PJRT_Error_Message_Args',
    'AbiErrorGetCodeArgs': 'PJRT_Error_GetCode_Args',
    'AbiErrorForEachPayloadArgs': 'PJRT_Error_ForEachPayload_Args',
    'AbiNamedValue': 'PJRT_NamedValue',
    'AbiPluginAttributesArgs': 'PJRT_Plugin_Attributes_Args',
    'AbiProgram': 'PJRT_Program',
    'AbiCompileArgs': 'PJRT_Client_Compile_Args',
    'AbiGetExecutableArgs': 'PJRT_LoadedExecutable_GetExecutable_Args',
    'AbiOptimizedProgramArgs': 'PJRT_Executable_OptimizedProgram_Args',
    'AbiExecutableDestroyArgs': 'PJRT_Executable_Destroy_Args',
    'AbiLoadedExecutableDestroyArgs': 'PJRT_LoadedExecutable_Destroy_Args',
    'AbiSerializeArgs': 'PJRT_Executable_Serialize_Args',
    'AbiDeserializeAndLoadArgs': 'PJRT_Executable_DeserializeAndLoad_Args',
    'AbiExecuteOptions': 'PJRT_ExecuteOptions',
    'AbiExecuteArgs': 'PJRT_LoadedExecutable_Execute_Args',
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
LATER_SLOTS = {'PJRT_Error_ForEachPayload': 99}
# Structs of which ours is the beginning only.
OPEN_ENDED = ('AbiErrorForEachPayloadArgs',)


def _structs(code: str) -> dict[str, str]:
  found = re.findall(r'typedef struct \{(.*?)\} (\w+);', code, re.DOTALL)
  return {name: body for body, name in found}


def _constants(code: str, prefix: str) -> dict[str, int]:
  found = re.findall(rf'\b({prefix}\w+) = (\d+)', code)
  return {name: int(value) for name, value in found}


def _upper(camel: str) -> str:
  return re.sub('(?<!^)(?=[A-Z])', '_', camel).upper()


def _assertions(minor: int) -> str:
  """C that compiles only if our header agrees with a header of 0.`minor`."""
  code = re.sub('//.*', '', HEADER.read_text())
  lines = []

  def same(ours: str, theirs: str) -> None:
    lines.append(f'_Static_assert(({ours}) == ({theirs}), "{ours}: {theirs}");')

  structs = _structs(code)
  assert set(structs) == {*STRUCTS, 'AbiApi'}
  for ours, theirs in STRUCTS.items():
    if LATER_STRUCTS.get(ours, 0) > minor:
      continue
    whole = ours not in OPEN_ENDED
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
  slots = _constants(code, 'kSlot')
  assert len(slots) == 13
  for name in slots:
    theirs = re.sub(
        r'^(Error|Plugin|Client|Executable|LoadedExecutable)(?=[A-Z])',
        r'PJRT_\1_', name.removeprefix('kSlot'))
    if LATER_SLOTS.get(theirs, 0) <= minor:
      same(f'offsetof(AbiApi, slots) + {name} * sizeof(AbiFunction)',
           f'offsetof(PJRT_Api, {theirs})')
  for name in _constants(code, 'kAbiValue'):
    same(name, 'PJRT_NamedValue_k' + name.removeprefix('kAbiValue'))
  codes = _constants(code, 'kAbi')
  same(f'{codes.pop("kAbiMajor")}', 'PJRT_API_MAJOR')
  same(f'{codes.pop("kAbiLastCode")}', 'PJRT_Error_Code_UNAUTHENTICATED')
  for name in codes:
    if not name.endswith('Minor') and not name.startswith('kAbiValue'):
      same(name, 'PJRT_Error_Code_' + _upper(name.removeprefix('kAbi')))
  return '\n'.join(lines)


@pytest.fixture(scope='module')
def include(inner_path: str) -> Path:
  folder = Path(inner_path).parent / 'include'
  assert (folder / 'pjrt_c_api.h').is_file()
  return folder


def _compile(include: Path,
             assertions: str) -> subprocess.CompletedProcess[str]:
  source = ('#include "pjrt_c_api.h"\n'
            '#include "torch_xla/csrc/pjrt_shardy/pjrt_abi.h"\n' + assertions)
  return subprocess.run([
      'gcc', '-std=c11', '-fsyntax-only', f'-I{include}', f'-I{ROOT}', '-x',
      'c', '-'
  ],
                        input=source,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT,
                        text=True,
                        check=False)


def _minor(include: Path) -> int:
  text = (include / 'pjrt_c_api.h').read_text()
  return int(re.findall(r'#define PJRT_API_MINOR (\d+)', text)[0])


def test_layout_is_that_of_the_plugins_header(include: Path) -> None:
  assertions = _assertions(_minor(include))
  assert assertions.count('_Static_assert') > 100
  done = _compile(include, assertions)
  assert done.returncode == 0, done.stdout


def test_a_wrong_layout_is_seen(include: Path) -> None:
  wrong = _assertions(_minor(include)).replace('kSlotClientCompile *',
                                               '(kSlotClientCompile + 1) *')
  done = _compile(include, wrong)
  assert done.returncode != 0
  assert 'PJRT_Client_Compile' in done.stdout
