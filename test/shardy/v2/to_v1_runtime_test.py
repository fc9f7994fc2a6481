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
from torch_xla.shardy import door
from torch_xla.shardy.door import shim
from torch_xla.shardy.v2 import to_v1
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


@pytest.fixture(name='unanswered')
def unanswered_fixture(sharded):
  """A sharded tensor; the runtime asks the backend, as of programs loaded."""

  def give_no_answer(compilation, rest):
    compilation.set_optimized_program = lambda *answer: None
    rest(compilation)

  undo = door.wrap(give_no_answer)
  yield sharded
  undo()


def _mark_again(t) -> None:
  xs.mark_sharding(t, xlac_shardings.mesh_2x4(), ('x', 'y'))


@pytest.mark.environment(**_V2)
def test_readback_is_what_makes_it_so(unanswered):
  """Without it V2 gets into `_XLAC`, and an equal spec is taken for another."""
  out = unanswered + 1
  xlac_shardings.sync()
  assert xlac_shardings.specs_of(out) == [_LISTED]
  _mark_again(out)
  shim.set_readback(None)
  out = unanswered + 2  # Another program: what is read of one is kept.
  xlac_shardings.sync()
  assert xlac_shardings.specs_of(out) == ['{devices=[2,4]<=[8]}']
  with pytest.raises(
      RuntimeError, match='Existing annotation must be cleared first'):
    _mark_again(out)


@pytest.mark.environment(**_V2)
def test_exception_in_the_readback_is_an_error_of_the_compile(unanswered):

  def broken(program, program_format):
    raise KeyError(f'no rule for {program_format}')

  shim.set_readback(broken)
  out = unanswered + 1
  with pytest.raises(
      Exception, match="KeyError: 'no rule for hlo_with_config'"):
    xlac_shardings.sync()
  del out


@pytest.mark.environment(**_V2)
def test_what_was_just_compiled_is_not_asked_for(sharded):
  shim.set_readback(None)
  out = sharded + 1
  xlac_shardings.sync()
  assert xlac_shardings.specs_of(out) == [_LISTED]
  _mark_again(out)


@pytest.mark.environment(**_V2)
def test_a_program_handed_back_is_what_is_read(unanswered):
  seen = []

  def watch(program, program_format):
    seen.append(program_format)
    return to_v1.to_v1(program, program_format)

  shim.set_readback(watch)
  out = unanswered + 1
  xlac_shardings.sync()
  assert xlac_shardings.specs_of(out) == [_LISTED]
  assert set(seen) == {'hlo_with_config'}
