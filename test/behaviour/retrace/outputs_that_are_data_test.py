"""A result of a compiled function, or an updated argument, that is data."""

from kinds import assert_right
import pytest
import torch
import torch_xla
import torch_xla.runtime as xr

ENVIRONMENT = {'PJRT_DEVICE': 'CPU', 'CPU_NUM_DEVICES': '8'}


def copy(x, y):
  x.copy_(y)
  return x + 1


def swap(x, y):
  old = x.clone()
  x.copy_(y)
  y.copy_(old)
  return x + 1


def clones(x, y):
  return x.clone(), x.clone(), y.clone()


def aliases(x, y):
  return x.detach(), x, y.view(-1), x + y, x.clone()


@pytest.mark.parametrize('f', [copy, swap, clones, aliases])
def test_forward(f):
  xr.use_spmd()
  torch._dynamo.reset()
  compiled = torch.compile(f, backend='openxla')
  for _ in range(2):
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    on_device = [x.to('xla'), y.to('xla')]
    actual = compiled(*on_device)
    expected = f(x, y)
    if isinstance(expected, torch.Tensor):
      expected, actual = (expected,), (actual,)
    for a, e in zip((*actual, *on_device), (*expected, x, y), strict=True):
      assert_right(a, e)


def test_data_that_is_saved_for_the_backward_pass():
  xr.use_spmd()
  torch._dynamo.reset()

  def f(x, y, w):
    return (torch.sin(x.view(2, 8)) * w + y.reshape(2, 8) * w).sum()

  compiled = torch.compile(f, backend='openxla')
  w = torch.randn(2, 8, requires_grad=True)
  on_device = w.detach().to('xla').requires_grad_()
  for _ in range(2):
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    w.grad = on_device.grad = None
    f(x, y, w).backward()
    compiled(x.to('xla'), y.to('xla'), on_device).backward()
    torch_xla.sync()
    assert_right(on_device.grad, w.grad)


def test_spectral_norm():
  xr.use_spmd()
  torch._dynamo.reset()
  torch.manual_seed(0)
  norm = torch.nn.utils.parametrizations.spectral_norm
  layer, on_device = norm(torch.nn.Linear(4, 4)), norm(torch.nn.Linear(4, 4))
  on_device.load_state_dict(layer.state_dict())
  on_device = on_device.to('xla')
  compiled = torch.compile(on_device, backend='openxla')
  for _ in range(2):
    x = torch.randn(4, 4)
    assert_right(compiled(x.to('xla')).detach(), layer(x).detach())
