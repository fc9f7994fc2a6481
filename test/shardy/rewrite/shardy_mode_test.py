"""Mode Shardy: switched on in every way, and on every plugin."""

import environments
import numpy as np
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy import current_mode, DoorError, Mode
from torch_xla.shardy.door.device_plugins import XlaCpuPlugin
from torch_xla.shardy.hlo.compile_options import Partitioner

_SHARDY = environments.SHARDY


def _check_annotated_program(num_devices: int) -> None:
  """Shardy partitions a product, and the numbers are right."""
  xr.use_spmd()
  assert current_mode() is Mode.SHARDY
  assert xr.global_runtime_device_count() == num_devices
  mesh = xs.Mesh(np.arange(num_devices), (num_devices,), ('x',))
  a, b = torch.randn(16, 8), torch.randn(8, 16)
  x, w = a.to('xla'), b.to('xla')
  xs.mark_sharding(x, mesh, ('x', None), priority=(0, None))
  xs.mark_sharding(w, mesh, (None, 'x'), priority=(None, 1))
  torch_xla.sync()
  with torch_xla.shardy.record() as programs:
    y = x @ w
    torch_xla.sync()
  program, = programs
  assert program.partitioner is Partitioner.SHARDY
  assert program.note == '' and program.error is None
  assert {
      t.spec: t.priority for t in program.tensors
  } == {
      "('x', None)": (0, None),
      "(None, 'x')": (None, 1)
  }
  assert program.without_programs() in torch_xla.shardy.programs()
  torch.testing.assert_close(y.cpu(), a @ b)


@pytest.mark.environment(**_SHARDY)
def test_environment_switches_on():
  assert xr.device_type() == 'XLACPU'
  assert str(torch_xla.device()) == 'xla:0'
  _check_annotated_program(8)


@pytest.mark.environment(
    PJRT_DEVICE='CPU', CPU_NUM_DEVICES='8', CONVERT_SHLO_TO_SHARDY='1')
def test_upstreams_variable_switches_on():
  assert xr.device_type() == 'XLACPU'
  _check_annotated_program(8)


@pytest.mark.environment(PJRT_DEVICE='CPU')
def test_use_shardy_switches_on(monkeypatch):
  monkeypatch.setenv('CPU_NUM_DEVICES', '4')
  xr.use_shardy()
  xr.use_shardy()
  assert xr.device_type() == 'XLACPU'
  _check_annotated_program(4)


@pytest.mark.slow
@pytest.mark.environment(
    PJRT_DEVICE='LIBRARY',
    PJRT_LIBRARY_PATH=XlaCpuPlugin().library_path(),
    XLA_FLAGS='--xla_force_host_platform_device_count=4',
    XLA_USE_SHARDY='1')
def test_a_plugin_named_by_its_path():
  assert xr.device_type() == 'LIBRARY'
  _check_annotated_program(4)


@pytest.mark.environment(**_SHARDY)
@pytest.mark.parametrize('priority', [None, (0, None)], ids=str)
def test_mark_sharding_without_the_door(monkeypatch, priority):
  """Rather than a built-in client's word on calls that it does not know."""
  xr.use_spmd()
  monkeypatch.setenv('PJRT_DEVICE', 'CPU')
  mesh = xs.Mesh(np.arange(8), (8,), ('x',))
  t = torch.ones(8, 8).to('xla')
  for _ in range(2):
    with pytest.raises(DoorError) as raised:
      xs.mark_sharding(t, mesh, ('x', None), priority=priority)
    message = str(raised.value)
    assert message.startswith("mode 'shardy' is on but the runtime came up "
                              'without the door: PJRT_DEVICE was changed')
    assert 'call torch_xla.runtime.set_device_type' in message
  # The tensor is none the worse.
  assert (t + 1).cpu().tolist() == [[2.] * 8] * 8
