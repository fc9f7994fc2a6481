"""A real plugin through its table, as the cases reach it."""

from __future__ import annotations

import pytest
from torch_xla_conformance.pjrt.host_array import HostArray, special_values
from torch_xla_conformance.pjrt.table import LoadError, PjrtError, Table


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
