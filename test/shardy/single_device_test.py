"""One device behind the door, without SPMD."""

import torch
import torch_xla
import torch_xla.runtime as xr
from torch_xla.shardy.hlo.compile_options import CompileOptions, Partitioner

ENVIRONMENT = {'PJRT_DEVICE': 'CPU', 'XLA_SHARDING_V2': '1'}
close = torch.testing.assert_close


def test_mode_and_devices():
  assert torch_xla.shardy.current_mode() is torch_xla.shardy.Mode.V2
  assert xr.global_runtime_device_count() == 1
  assert not xr.is_spmd()


def test_lazy():
  x = torch.randn(4, 4)
  with torch_xla.shardy.record() as programs:
    close((x.to('xla') @ x.to('xla')).cpu(), x @ x)
  assert len(programs) == 1
  assert programs[0].options == CompileOptions(Partitioner.NONE, 1, 1)
  assert programs[0].note == ''


def test_torch_xla_compile():
  step = torch_xla.compile(lambda x: x.sin() + x)
  x = torch.randn(4)
  close(step(x.to('xla')).cpu(), x.sin() + x)


def test_torch_compile_trains():
  torch.manual_seed(0)
  reference, model = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
  model.load_state_dict(reference.state_dict())
  model = model.to('xla')
  f = torch.compile(model, backend='openxla')
  for _ in range(3):
    x = torch.randn(2, 4)
    reference(x).square().sum().backward()
    f(x.to('xla')).square().sum().backward()
    torch_xla.sync()
  close(model.weight.grad.cpu(), reference.weight.grad)


def test_random_numbers_and_integers():
  torch_xla.manual_seed(3)
  x = torch.rand(1000, device='xla')
  assert 0.4 < x.mean().item() < 0.6
  i = torch.arange(10)
  close((i.to('xla') * 3 % 4).cpu(), i * 3 % 4)
