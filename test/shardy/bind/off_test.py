"""With Shardy off nothing is bound, and `priority=` says that it does nothing.
"""

from __future__ import annotations

import dataclasses
import logging
import sys
from typing import Any
from unittest import mock

import environments
import numpy as np
import processes
import pytest
import torch
import torch_xla
from torch_xla import _XLAC
import torch_xla.debug.metrics as met
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

ENVIRONMENT = {}  # Beside the tests that need no child.
# Nothing is imported here that is not imported with the mode off.
_OFF = environments.DEVICES
_MODES = {'off': _OFF, 'v2': {**_OFF, 'XLA_SHARDING_V2': '1'}}


@dataclasses.dataclass(frozen=True)
class _Seen:
  """What three steps came to.

  Attributes:
    same: costs, values, programs and shardings.
    warnings: of the loggers of Shardy.
    custom_calls: the targets of those that were put into graphs.
    has_door: whether the door was imported.
    has_shim: whether its library was loaded.
  """
  same: list[Any]
  warnings: list[str]
  custom_calls: list[str]
  has_door: bool
  has_shim: bool


class _Warnings(logging.Handler):

  def __init__(self):
    super().__init__(logging.WARNING)
    self.messages: list[str] = []

  def emit(self, record: logging.LogRecord) -> None:
    self.messages.append(record.getMessage())


def _steps(with_priority: bool) -> _Seen:
  """Steps in lazy mode and in torch.compile, with priorities or without."""
  warnings = _Warnings()
  logging.getLogger('torch_xla.shardy').addHandler(warnings)
  with mock.patch.object(
      _XLAC, '_xla_custom_call', wraps=_XLAC._xla_custom_call) as custom_call:
    same = _mark_and_run(lambda *p: {'priority': p} if with_priority else {})
  with open('/proc/self/maps', encoding='ascii') as maps:
    has_shim = 'libpjrt_shardy' in maps.read()
  return _Seen(same, warnings.messages,
               [call.args[1] for call in custom_call.call_args_list],
               'torch_xla.shardy.door' in sys.modules, has_shim)


def _mark_and_run(priority) -> list[Any]:
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))
  torch.manual_seed(0)
  w = torch.randn(16, 8).to('xla')
  xs.mark_sharding(w, mesh, ('y', None), **priority(1, None))
  counters, values, hlo, specs = [], [], [], []
  f = torch.compile(lambda x: (x @ w).relu(), backend='openxla')
  for _ in range(3):
    x = torch.randn(8, 16).to('xla')
    xs.mark_sharding(x, mesh, ('x', None), **priority(0, None))
    h = x @ w
    xs.mark_sharding(h, mesh, (None, 'y'), **priority(2, 3))
    out = h.sum(1)
    w.mul_(.5)
    hlo.append(_XLAC._get_xla_tensors_hlo([out, h, w]))
    torch_xla.sync(wait=True)
    compiled = f(x)
    torch_xla.sync(wait=True)
    specs += _XLAC._get_xla_sharding_specs([out, h, w, compiled])
    values.append([out.cpu().tolist(), compiled.cpu().tolist()])
    counters.append([
        met.counter_value(c) or 0 for c in ('UncachedCompile', 'CachedCompile',
                                            'DynamoExtractCompiledGraph')
    ])
  return [counters, values, hlo, specs]


@pytest.fixture(scope='module', name='plain')
def plain_fixture() -> _Seen:
  return processes.call(_steps, False, **_OFF).value


@pytest.fixture(scope='module', name='runs')
def runs_fixture() -> dict[str, _Seen]:
  return {
      mode: processes.call(_steps, True, **variables).value
      for mode, variables in _MODES.items()
  }


def test_no_priority_no_warning(plain):
  assert plain.warnings == []
  assert plain.custom_calls == []


@pytest.mark.parametrize('mode', _MODES)
def test_one_warning_and_no_other_difference(mode, plain, runs):
  warning, = runs[mode].warnings
  assert 'priority' in warning and 'no effect' in warning
  assert 'XLA_USE_SHARDY=1' in warning
  assert runs[mode].custom_calls == []
  assert runs[mode].same == plain.same


def test_shim_is_only_loaded_with_a_mode_on(plain, runs):
  all_seen = plain, runs['off'], runs['v2']
  assert [seen.has_shim for seen in all_seen] == [False, False, True]
  assert [seen.has_door for seen in all_seen] == [False, False, True]


@pytest.mark.environment(**_OFF)
def test_wrong_priorities_are_errors_all_the_same():
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8), (8,), ('x',))
  t = torch.ones(8).to('xla')
  with pytest.raises(ValueError) as caught:
    xs.mark_sharding(t, mesh, ('x',), priority=(-1,))
  assert type(caught.value).__name__ == 'PriorityValueError'
