"""A real plugin through its table, as the cases reach it."""

from __future__ import annotations

from pathlib import Path

import processes
import pytest
from torch_xla_conformance.pjrt.client import Client
from torch_xla_conformance.pjrt.graph import elementwise, spread
from torch_xla_conformance.pjrt.host_array import (HostArray, special_values)
from torch_xla_conformance.pjrt.buffer import floats, read_floats
from torch_xla_conformance.pjrt.programs import Program
from torch_xla_conformance.pjrt.table import (LoadError, MissingError,
                                              PjrtError, Table)
import xla_plugins.xla_cpu_pjrt

LIBRARY = str(
    Path(xla_plugins.xla_cpu_pjrt.__file__).parent / 'xla_cpu_pjrt.so')


def _sums() -> dict[str, object]:
  """The same sums from programs in both forms."""
  table = Table.open(LIBRARY)
  found: dict[str, object] = {}
  with Client.start(table, {'cpu_device_count': 2}) as client:
    found['ids'] = client.ids
    for form in ('hlo', 'mlir'):
      for opcode in ('add', 'multiply'):
        loaded = client.compile(
            elementwise((3,), opcode=opcode).program(form, client.ids[:1]))
        left, right = client.put(floats([1, 2,
                                         3])), client.put(floats([4, 5, 6]))
        (result,), = loaded.execute([[left, right]])
        found[f'{form} {opcode}'] = read_floats(result, 3)
      loaded = client.compile(spread(4).program(form, client.ids[:1]))
      (result,), = loaded.execute([[client.put(floats([7]))]])
      found[f'{form} spread'] = read_floats(result, 4)
    with pytest.raises(PjrtError) as refused:
      client.compile(Program(b'nothing', 'hlo', b''))
    found['refused'] = (refused.value.code, bool(refused.value.message))
    with pytest.raises(MissingError, match='has no PJRT_Nothing'):
      table.call('Nothing')
  return found


def test_programs_in_both_forms() -> None:
  sums = (5., 7., 9.)
  products = (4., 10., 18.)
  assert processes.call(_sums).value == {
      'ids': (0, 1),
      'hlo add': sums,
      'hlo multiply': products,
      'hlo spread': (7.,) * 4,
      'mlir add': sums,
      'mlir multiply': products,
      'mlir spread': (7.,) * 4,
      'refused': ('INVALID_ARGUMENT', True),
  }


def test_what_is_no_plugin() -> None:
  with pytest.raises(LoadError, match='it cannot be loaded.*no-such.so'):
    Table.open('/no-such.so')
  with pytest.raises(PjrtError, match='does not export GetPjrtApi'):
    Table.open('libc.so.6')


def test_special_values_lead() -> None:
  assert special_values('BF16').hex(
      ' ', 2) == '0080 807f 80ff c17f c3ff 0100 0180 7f00'
  array = HostArray.random_bits('F32', (1025,), 3)
  assert array.data.startswith(special_values('F32'))
  assert array == HostArray.random_bits('F32', (1025,), 3)
  assert array != HostArray.random_bits('F32', (1025,), 4)
  assert set(HostArray.random_bits('PRED', (99,), 0).data) == {0, 1}


def test_where_arrays_differ() -> None:
  array = HostArray('S16', (2, 2), bytes(range(8)))
  assert not array.first_difference(array)
  changed = HostArray('S16', (2, 2), bytes([0, 1, 2, 9, 4, 5, 6, 8]))
  assert array.first_difference(changed) == (
      '2 of 8 bytes differ, first in element 1: 0209 in place of 0203')
  assert array.first_difference(HostArray(
      'S16', (4,), array.data)) == ('S16[4] in place of S16[2, 2]')
