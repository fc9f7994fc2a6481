"""The suite's structs and slots against the header of a real plugin."""

from __future__ import annotations

from pathlib import Path
import subprocess

import pytest
from torch_xla.shardy.conformance.pjrt import slots, structs
from torch_xla.shardy.conformance.pjrt.buffer import _TILED_SIZE
from torch_xla.shardy.conformance.pjrt.host_array import TYPES
from torch_xla.shardy.conformance.pjrt.table import CODES
import xla_plugins.xla_cpu_pjrt

_INCLUDE = Path(xla_plugins.xla_cpu_pjrt.__file__).parent / 'include'
_OTHERS = ('Program', 'ExecuteOptions', 'NamedValue', 'ShapeSpec')
# Whose fields are partly those of a struct in it.
_NESTED = {
    'MemoryLayout': 'PJRT_Buffer_MemoryLayout',
}
_TILED = {
    'tiled_size': 'tiled.struct_size',
    'tiled_extension': 'tiled.extension_start',
    **{
        f: f'tiled.{f}' for f in ('minor_to_major', 'minor_to_major_size', 'tile_dims', 'tile_dim_sizes', 'num_tiles')
    }
}
_HEADER = ('struct_size', 'extension_start')


def _theirs(name: str) -> str:
  if name in _NESTED:
    return _NESTED[name]
  return f'PJRT_{name}' if name in _OTHERS else f'PJRT_{name}_Args'


def _offset(name: str, field: str) -> str:
  if name in _NESTED:
    field = _TILED.get(field, field)
  return f'offsetof({_theirs(name)}, {field})'


@pytest.fixture(scope='module')
def numbers(tmp_path_factory) -> dict[str, int]:
  """What a C compiler makes of the header, by expression."""
  wanted = [
      _offset(name, field)
      for name in structs.names()
      for field, _ in structs.struct(name)._fields_
  ]
  wanted += [f'offsetof(PJRT_Api, PJRT_{name})' for name in slots.NAMES]
  wanted += [f'PJRT_Extension_Type_{name}' for name in slots.EXTENSIONS]
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


@pytest.mark.parametrize('name', structs.names())
def test_fields_are_where_the_header_has_them(name: str,
                                              numbers: dict[str, int]) -> None:
  kind = structs.struct(name)
  ours = {field: getattr(kind, field).offset for field, _ in kind._fields_}
  assert tuple(ours)[:2] == _HEADER
  assert ours == {field: numbers[_offset(name, field)] for field in ours}


def test_slots(numbers: dict[str, int]) -> None:
  assert [numbers[f'offsetof(PJRT_Api, PJRT_{n})'] for n in slots.NAMES
         ] == [slots.FIRST_SLOT + 8 * i for i in range(len(slots.NAMES))]
  assert numbers['sizeof(PJRT_Api)'] == slots.FIRST_SLOT + 8 * len(slots.NAMES)
  assert slots.VERSION == numbers[
      'offsetof(PJRT_Api, pjrt_api_version.major_version)']


def test_numbers(numbers: dict[str, int]) -> None:
  assert {
      name: number for name, (number, _) in TYPES.items()
  } == {
      name: numbers[f'PJRT_Buffer_Type_{name}'] for name in TYPES
  }
  assert [numbers[f'PJRT_Extension_Type_{name}'] for name in slots.EXTENSIONS
         ] == list(range(len(slots.EXTENSIONS)))
  assert slots.FIRST_EXTENSION == numbers['offsetof(PJRT_Api, extension_start)']
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
  assert _TILED_SIZE == numbers['sizeof(PJRT_Buffer_MemoryLayout_Tiled)']
  made = structs.make('Client_Compile', client=7)
  assert made.struct_size == 512 and made.client == 7
