"""Virtual devices, and meshes that want others than there are."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import numpy as np
import processes
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy import (device_count, DeviceCountError, Mode,
                              TooLateError)

ENVIRONMENT = {}  # Beside the tests that need no child.

_IN_SHARDY = pytest.mark.skipif(
    importlib.util.find_spec('torch_xla.shardy.bind') is None,
    reason='needs the series that mode Shardy comes from')


def _run(mode: Mode, first: bool) -> tuple[int, str]:
  """Runs a script where nothing is set."""
  if first:
    torch_xla.shardy.virtual_devices(8)
  if mode is not Mode.OFF:
    torch_xla.shardy.switch_on(mode)
  if not first:
    torch_xla.shardy.virtual_devices(8)
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8), (2, 4), ('data', 'model'))
  weight = torch.ones(16, 8).to('xla')
  xs.mark_sharding(weight, mesh, ('model', None))
  torch_xla.sync()
  torch_xla.shardy.virtual_devices(8)  # As there are.
  with pytest.raises(
      TooLateError,
      match=r'virtual_devices\(4\): .* is already '
      r'up, with 8 devices. Call it before'):
    torch_xla.shardy.virtual_devices(4)
  return xr.global_runtime_device_count(), str(weight.sum().item())


@pytest.mark.parametrize('mode, first', [
    pytest.param(Mode.SHARDY, True, marks=_IN_SHARDY),
    (Mode.V2, False),
    (Mode.OFF, True),
])
def test_where_nothing_is_set(mode: Mode, first: bool):
  assert processes.call(_run, mode, first).value == (8, '128.0')


def _mesh() -> str:
  with pytest.raises(AssertionError) as raised:
    xs.Mesh(np.arange(8), (2, 4))
  assert isinstance(raised.value, DeviceCountError)
  return str(raised.value)


def test_a_mesh_of_too_many_devices_names_the_remedy():
  said = processes.call(_mesh, PJRT_DEVICE='CPU').value
  assert 'Number of device IDs (8) must match' in said
  assert 'call torch_xla.shardy.virtual_devices(8) before' in said
  assert said.endswith('or make a mesh of 1 device')


def test_there_are_no_virtual_tpus(monkeypatch: pytest.MonkeyPatch):
  monkeypatch.setenv('PJRT_DEVICE', 'TPU')
  monkeypatch.delenv('CPU_NUM_DEVICES', raising=False)
  with pytest.raises(DeviceCountError, match='PJRT_DEVICE=TPU, whose devices'):
    torch_xla.shardy.virtual_devices(8)
  assert 'CPU_NUM_DEVICES' not in os.environ
  with pytest.raises(
      DeviceCountError, match=r'devices \(4\): make a mesh of 4'):
    device_count.check_mesh(8, 4)


@pytest.mark.parametrize('count', [0, -1, True, '8', 8.0])
def test_a_count_that_is_none(count: Any, monkeypatch: pytest.MonkeyPatch):
  monkeypatch.setenv('PJRT_DEVICE', 'CPU')
  with pytest.raises(ValueError, match='give an integer, 1 or more'):
    torch_xla.shardy.virtual_devices(count)
