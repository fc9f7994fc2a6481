"""The suite's structs and slots against the header of a real plugin."""

from __future__ import annotations

import ctypes
from pathlib import Path
import subprocess

import pytest
from torch_xla_conformance.pjrt import structs, table
from torch_xla_conformance.pjrt.host_array import TYPES
from torch_xla_conformance.pjrt.table import CODES
import xla_plugins.xla_cpu_pjrt

_INCLUDE = Path(xla_plugins.xla_cpu_pjrt.__file__).parent / 'include'
_OTHERS = ('Program', 'ExecuteOptions', 'NamedValue', 'ShapeSpec')
# What that header, of 0.81, does not have yet.
_LATER_FIELDS = ('multi_slice_config',)
_EXTENSIONS = table.EXTENSIONS[:table.EXTENSIONS.index('HostAllocator') + 1]
_HEADER = ('struct_size', 'extension_start')


def _names() -> list[str]:
  """The structs that have more than the header."""
  return [
      name for name in structs.names()
      if len(structs.struct(name)._fields_) > 2 and
      name != 'Error_ForEachPayload'  # From 0.99.
  ]


def _offset(name: str, field: str) -> str:
  if name.startswith('BufferMemoryLayout'):
    kind = name.replace('Buffer', 'PJRT_Buffer_').replace('Tiled', '_Tiled')
  else:
    kind = f'PJRT_{name}' if name in _OTHERS else f'PJRT_{name}_Args'
  return f'offsetof({kind}, {field})'


def _fields(name: str) -> list[str]:
  fields = [field for field, *_ in structs.struct(name)._fields_]
  return [field for field in fields if field not in _LATER_FIELDS]


@pytest.fixture(scope='module')
def numbers(tmp_path_factory) -> dict[str, int]:
  """What a C compiler makes of the header, by expression."""
  wanted = [
      _offset(name, field) for name in _names() for field in _fields(name)
  ]
  wanted += [f'offsetof(PJRT_Api, PJRT_{name})' for name in structs.functions()]
  wanted += [f'PJRT_Extension_Type_{name}' for name in _EXTENSIONS]
  wanted.append('offsetof(PJRT_Api, extension_start)')
  wanted += [f'PJRT_Buffer_Type_{name}' for name in TYPES]
  wanted += [f'PJRT_Error_Code_{name}' for name in CODES]
  wanted += [
      'sizeof(PJRT_Buffer_MemoryLayout_Tiled)', 'sizeof(PJRT_NamedValue)',
      'sizeof(PJRT_Program)', 'sizeof(PJRT_Api)',
      'offsetof(PJRT_Api, pjrt_api_version.major_version)',
      'PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes'
  ]
  folder = tmp_path_factory.mktemp('structs')
  lines = '\n'.join(f'printf("%zu\\n", (size_t){text});' for text in wanted)
  (folder / 'print.c').write_text(f'''
#include <stdio.h>
#include <stddef.h>
#include "pjrt_c_api.h"
int main(void) {{ {lines} return 0; }}
''')
  subprocess.run(
      ['gcc', '-I', str(_INCLUDE), 'print.c', '-o', 'print'],
      cwd=folder,
      check=True)
  printed = subprocess.run([str(folder / 'print')],
                           stdout=subprocess.PIPE,
                           text=True,
                           check=True).stdout
  return dict(zip(wanted, map(int, printed.split()), strict=True))


@pytest.mark.parametrize('name', _names())
def test_fields_are_where_the_header_has_them(name: str,
                                              numbers: dict[str, int]) -> None:
  kind = structs.struct(name)
  ours = {field: getattr(kind, field).offset for field in _fields(name)}
  assert tuple(ours)[:2] == _HEADER
  assert ours == {field: numbers[_offset(name, field)] for field in ours}


def test_slots(numbers: dict[str, int]) -> None:
  assert [
      numbers[f'offsetof(PJRT_Api, PJRT_{n})'] for n in structs.functions()
  ] == [table.FIRST_SLOT + 8 * i for i in range(len(structs.functions()))]
  assert numbers['sizeof(PJRT_Api)'] == table.FIRST_SLOT + 8 * len(
      structs.functions())
  assert table.VERSION == numbers[
      'offsetof(PJRT_Api, pjrt_api_version.major_version)']


def test_numbers(numbers: dict[str, int]) -> None:
  assert {
      name: number for name, (number, _) in TYPES.items()
  } == {
      name: numbers[f'PJRT_Buffer_Type_{name}'] for name in TYPES
  }
  assert [numbers[f'PJRT_Extension_Type_{name}'] for name in _EXTENSIONS
         ] == list(range(len(_EXTENSIONS)))
  assert table.FIRST_EXTENSION == numbers['offsetof(PJRT_Api, extension_start)']
  assert [numbers[f'PJRT_Error_Code_{name}'] for name in CODES
         ] == list(range(len(CODES)))
  assert numbers[
      'PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes'] == 1


def test_a_struct_for_an_array_has_its_own_size(
    numbers: dict[str, int]) -> None:
  """Others have room behind them, for what a newer plugin reads."""
  assert structs.make(
      'NamedValue').struct_size == numbers['sizeof(PJRT_NamedValue)']
  assert structs.make(
      'Program', room=False).struct_size == numbers['sizeof(PJRT_Program)']
  tiled = structs.make('BufferMemoryLayoutTiled', room=False)
  assert tiled.struct_size == numbers['sizeof(PJRT_Buffer_MemoryLayout_Tiled)']
  made = structs.make('Client_Compile', client=7)
  assert made.struct_size == 512 and made.client == 7


@pytest.mark.parametrize('value', ['a', (1, 2), [1, 2], 3, True, 0.5])
def test_options_are_read_as_they_were_given(value: object) -> None:
  array = table.named_values({'name': value})
  answer = table.read_values(ctypes.addressof(array), 1)['name']
  assert answer == (tuple(value) if isinstance(value, list) else value)
