"""What `_XLAC` knows of shardings, in V2 mode as in the official wheel.

The same functions run in a process with the mode off, which is the official
wheel, and in one with `XLA_SHARDING_V2=1`; what they give must be the same.
"""

from __future__ import annotations

import concurrent.futures
from typing import Any

import environments
import processes
import pytest
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy import Mode
import xlac_shardings

ENVIRONMENT = {}  # Beside the tests that need no child.
_OFF = environments.DEVICES
_V2 = {**_OFF, 'XLA_SHARDING_V2': '1'}
_LISTED = '{devices=[2,4]0,1,2,3,4,5,6,7}'

_Read = dict[str, list[Any]]


@pytest.fixture(scope='module', name='official_and_v2')
def official_and_v2_fixture() -> tuple[_Read, _Read]:

  def read(mode: Mode, variables: dict[str, str]) -> _Read:
    return processes.call(xlac_shardings.read_all, mode, **variables).value

  with concurrent.futures.ThreadPoolExecutor() as pool:
    return tuple(pool.map(read, (Mode.OFF, Mode.V2), (_OFF, _V2)))


@pytest.mark.slow
@pytest.mark.parametrize('section', xlac_shardings.SECTIONS)
def test_same_as_the_official_wheel(section, official_and_v2):
  official, v2 = official_and_v2
  assert official[section]
  assert '<=[' not in str(official[section])
  assert v2[section] == official[section]


@pytest.fixture(name='sharded')
def sharded_fixture():
  """A sharded tensor, in SPMD mode."""
  xr.use_spmd()
  return xlac_shardings.put((8, 8), ('x', 'y'), xlac_shardings.mesh_2x4())


def _mark_again(t) -> None:
  xs.mark_sharding(t, xlac_shardings.mesh_2x4(), ('x', 'y'))


@pytest.mark.environment(**_V2)
def test_shardings_are_read_in_v1(sharded):
  out = sharded + 1
  xlac_shardings.sync()
  assert xlac_shardings.specs_of(out) == [_LISTED]
  _mark_again(out)
