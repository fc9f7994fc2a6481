"""Operators whose kernels in C++ compute something else than torch."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.experimental.xla_quantized_matmul
import torch_xla.runtime as xr

ENVIRONMENT = {'PJRT_DEVICE': 'CPU'}
_MATRIX = torch.arange(-8., 8.).reshape(4, 4)
_INDEX = torch.tensor([1, 0, 3, 2])
_WITH_NAN = torch.tensor([[3., 3., float('nan'), 1.], [7., 7., 2., 7.]])
_COMPLEX = torch.tensor([[3 + 4j, 1j], [2 - 1j, -5 + 0j]])
_LARGE = torch.tensor([78065325572094, -78065325572094, 7, -7])

# Each with two numbers: of graphs that differ in it alone.
_HASHED = {
    'celu': (lambda t, n: F.celu(t, float(n)), _MATRIX),
    'celu in place': (lambda t, n: F.celu(t * 1, float(n), True), _MATRIX),
    'elu': (lambda t, n: F.elu(t, float(n)), _MATRIX),
    'index_add':
        (lambda t, n: t.index_add(n - 1, _INDEX.to(t.device), t * 2), _MATRIX),
    'index_copy':
        (lambda t, n: t.index_copy(n - 1, _INDEX.to(t.device), t * 2), _MATRIX),
    'avg_pool2d':
        (lambda t, n: F.avg_pool2d(t[None], 2, 1, 1, divisor_override=n),
         _MATRIX),
    'avg_pool2d in ceil mode':
        (lambda t, n: F.avg_pool2d(t[None], 3, 2, 1, True, False, n), _MATRIX),
    'pixel_shuffle':
        (lambda t, n: F.pixel_shuffle(t.reshape(16, 1, 1), 2 * n), _MATRIX),
    'exponential_': (lambda t, n:
                     (t.new_empty(n).exponential_(2.) > 0) * t[0, :1], _MATRIX),
    '_amp_update_scale_':
        (lambda t, n: torch._amp_update_scale_(t.detach()[0, :1] * 1, (0 * t[
            0, :1]).int(), 0 * t.detach()[0, :1] + 1, 2., 1 / n, 3), _MATRIX),
    'avg_pool3d': (
        lambda t, n: F.avg_pool3d(t[None, None],
                                  (1, 2, 2), divisor_override=n), _MATRIX),
}
_EXACT = {
    'hardtanh': (F.hardtanh, torch.tensor([-1., -.5, 1., 2.])),
    'floor of integers': (lambda t: t // 3, _LARGE),
    'floor by a tensor': (lambda t: t // t.flip(0), _LARGE),
    'floor of int32': (lambda t: t // -3,
                       torch.tensor([2147483647, -7], dtype=torch.int32)),
    'floor of floats': (lambda t: t.detach() // .1, torch.tensor([1., -1.,
                                                                  7.])),
    'truncated': (lambda t: torch.div(t, 3, rounding_mode='trunc'), _LARGE),
    'a number by a tensor': (lambda t: 78065325572094 // t, _LARGE),
    'shift': (lambda t: t >> 3, _LARGE),
    'where of two dtypes': (lambda t: torch.where(t > 7, t, t * .5), _LARGE),
    'remainder of two dtypes':
        (lambda t: torch.remainder(t[2:], t[2:] * .3), _LARGE),
    'shift by all': (lambda t: t >> 63, _LARGE),
    'shift by a tensor': (lambda t: t >> (t % 7), _LARGE),
    'gradient of complex numbers':
        (lambda t: torch.gradient(torch.complex(t, t * t))[0], torch.arange(5.)
        ),
    'bits of bool': (lambda t: (t > 0) | 2, _LARGE),
    'cumsum of bool': (lambda t: (t > 0).cumsum(0), _LARGE),
    'cumsum of int8': (lambda t: t.cumsum(0),
                       torch.tensor([100, 100], dtype=torch.int8)),
    'abs of complex': (torch.abs, torch.tensor([3 + 4j])),
    'norm of infinity': (lambda t: torch.norm(t, float('inf')), _MATRIX),
    'norm of 0': (lambda t: torch.norm(t.detach(), 0, 0), _MATRIX),
    'masked_scatter': (lambda t: t.masked_scatter(t[0] > -8,
                                                  t.flip(1) * 2), _MATRIX),
    'masked_select': (lambda t: t.masked_select(t > 0), _MATRIX),
    'negative pads': (lambda t: F.pad(t, (-1, 2, 1, -3), value=7.), _MATRIX),
    'masked_scatter of nothing':
        (lambda t: t.masked_scatter(t > 9, t[:0]), _MATRIX),
    'roll of nothing': (lambda t: t.roll(1), torch.zeros(0, 3)),
    'max': (lambda t: t.max(0)[0], _WITH_NAN),
    'argmax': (lambda t: t.argmax(1) + t.detach().min(1)[1], _WITH_NAN),
    'cummax': (lambda t: t.cummax(1)[0], _WITH_NAN),
    'index of cummax': (lambda t: t.cummax(1)[1], _WITH_NAN),
    'clamp': (lambda t: t.clamp(0, 1), _WITH_NAN),
    'clamp of integers': (lambda t: t.clamp(max=1.5), _LARGE),
    'threshold': (lambda t: F.threshold(t, 0, 9.) + F.softshrink(t), _WITH_NAN),
    'amax of all': (torch.amax, _MATRIX),
    'amin of bool': (lambda t: (t > 0).amin(), _LARGE),
    'a number of float64': (lambda t: (t == .1) |
                            (t >= .7), torch.tensor([.1, .7, .5])),
    'a number that uint8 lacks': (lambda t: t < 300,
                                  torch.tensor([200, 3], dtype=torch.uint8)),
    'remainder by infinity': (lambda t: t % float('inf'), _MATRIX),
    'remainder of a number': (lambda t: 100 % (t.detach() + .5), _MATRIX),
    'power of integers': (lambda t: (t % 3 - 1)**(t % 5 - 3), _LARGE),
    'quotient by a number': (lambda t: t / 3 + 2 / (t + .5), _MATRIX),
    'quotient of integers': (lambda t: t / 3.5, _LARGE),
    'quotient of complex': (lambda t: t / (t + 1) / 2, _COMPLEX),
    'norm of complex': (torch.norm, _COMPLEX),
    'gradients of complex':
        (lambda t: torch.einsum('ij,kj->ik', t.tanh(), t.sigmoid()), _COMPLEX),
    'inverse of complex':
        (lambda t: torch.linalg.inv(t[:, :1] + torch.eye(2, device=t.device)),
         _COMPLEX.view(2, -1)),
    'parts of complex':
        (lambda t: torch.view_as_real(t).transpose(0, 2) * 2, _COMPLEX[None]),
    'count_nonzero': (lambda t: t.count_nonzero(0), _MATRIX),
    'asin of bool':
        (lambda t: torch.asin(t > 0) + torch.isneginf(t > 0), _LARGE),
    'pdist of 0': (lambda t: F.pdist(t.detach(), 0), _MATRIX),
    '_chunk_cat': (lambda t: torch._chunk_cat([t, t + 1], 1, 3), _MATRIX.int()),
    'as_strided': (lambda t: t.as_strided((2, 2), (4, 1), 1), _MATRIX),
    'upsample': (lambda t: F.interpolate(
        t[None, None], scale_factor=1.7, mode='bilinear'), _MATRIX),
    'upsample to nearest':
        (lambda t: F.interpolate(t[None, None], scale_factor=1.52), _MATRIX),
    'avg_pool2d of integers':
        (lambda t: F.avg_pool2d(t.view(1, 2, 2) % 100, 2, divisor_override=3),
         _LARGE),
    'a number on the host': (lambda t: torch.copysign(t, -1.5), _LARGE),
}


def _values(function, x: torch.Tensor) -> list[torch.Tensor]:
  """The result, and the gradient where there is one."""
  x = x.detach().requires_grad_(x.is_floating_point() or x.is_complex())
  result = function(x)
  values = [result.detach()]
  if result.requires_grad:
    weights = torch.arange(1., result.numel() + 1).reshape(result.shape)
    (result * weights.to(result.device)).abs().sum().backward()
    values.append(x.grad)
  return values


def _check(functions, on_xla=None) -> None:
  """Compares functions of an argument each with a CPU, all in a single graph."""
  values = [
      v for f, x in functions.values()
      for v in _values(on_xla or f, x.to('xla'))
  ]
  values = iter(torch_xla._XLAC._xla_get_cpu_tensors(values))
  for name, (function, x) in functions.items():
    for right in _values(function, x.clone()):
      torch.testing.assert_close(
          next(values),
          right,
          equal_nan=True,
          msg=lambda m, n=name: f'{n}: {m}')


@pytest.mark.parametrize('name', _HASHED)
def test_numbers_tell_graphs_apart(name):
  function, x = _HASHED[name]
  for number in (1, 2):
    _check({name: (lambda t, n=number: function(t, n), x)})


def test_is_what_torch_computes():
  _check(_EXACT)


@pytest.mark.parametrize(
    'name', ['elu', 'index_copy', 'avg_pool2d in ceil mode', 'celu'])
def test_compiled(name):
  torch._dynamo.reset()
  function, x = _HASHED[name]
  for number in (1, 2):
    one = lambda t, n=number: function(t, n)
    _check({name: (one, x)},
           torch.compile(one, backend='openxla', dynamic=False))


def test_compiled_integers():
  torch._dynamo.reset()
  one = lambda t: t // 3 + (t >> 2) + (t > 0).cumsum(0) + t.clamp(max=1.5).int()
  _check({'integers': (one, _LARGE)},
         torch.compile(one, backend='openxla', dynamic=False))


def _composites(t):
  square = t @ t.t()
  scalars = (t.diag(1).sum(), torch.cross(t[:3, :3], t[1:, 1:], 0).sum(),
             F.kl_div(t,
                      t.detach().abs()))
  inverse = torch.inverse(square + 9 * torch.eye(4, device=t.device))
  singular = torch.svd(square + torch.diag(t[1]))[1]
  return torch.selu(t) + t.std(0) + inverse + singular + sum(scalars)


def test_compiled_composites_have_gradients():
  torch._dynamo.reset()
  _check({'composites': (_composites, _MATRIX)},
         torch.compile(_composites, backend='openxla'))


@pytest.mark.parametrize('read', [
    torch.Tensor.cpu,
    lambda t: torch.zeros(2, 2).to(t.dtype).copy_(t),
    lambda t: torch.add(t, 0, out=torch.empty(0, dtype=t.dtype)),
    lambda t: torch.tensor(t.tolist(), dtype=t.dtype),
    lambda t: torch.tensor([[u.item() for u in v] for v in t], dtype=t.dtype),
    torch.compile(lambda t: t.cpu(), backend='openxla'),
    torch.inference_mode()(lambda t: t.clone().to('cpu', t.dtype)),
])
def test_complex128_is_read(read):
  x = _COMPLEX.to(torch.complex128)
  torch.testing.assert_close(read(x.to('xla')).clone(), x)


@pytest.mark.environment(CPU_NUM_DEVICES='8', XLA_USE_SHARDY='1')
def test_sharded():
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8).reshape(4, 2)[::-1].reshape(-1), (4, 2), 'ab')
  x = _LARGE.reshape(4, 1).repeat(1, 3)
  t = x.to('xla')
  xs.mark_sharding(t, mesh, ('a', 'b'))
  torch_xla.sync()
  torch.testing.assert_close((t // -3).cpu(), x // -3)
  torch.testing.assert_close((t >> 2).cpu(), x >> 2)
  matrix = _MATRIX.to('xla')
  xs.mark_sharding(matrix, mesh, ('a', 'b'))
  torch.testing.assert_close(
      matrix.masked_scatter(matrix > 0, matrix * 2).cpu(),
      _MATRIX.masked_scatter(_MATRIX > 0, _MATRIX * 2))
  for dim in (0, 1):
    torch.testing.assert_close(
        matrix.index_copy(dim, _INDEX.to('xla'), matrix * 2).cpu(),
        _MATRIX.index_copy(dim, _INDEX, _MATRIX * 2))
  rows = torch.arange(64.).reshape(8, 8)
  t = rows.to('xla')
  xs.mark_sharding(t, mesh, (('a', 'b'), None))

  def rotations(t):
    pads = [F.pad(t, (0, 0, *pad)) for pad in ((-7, 0), (0, -1), (-1, 0))]
    return torch.cat(pads[:2]) + torch.cat((pads[2], F.pad(t, (0, 0, 0, -7))))

  torch.testing.assert_close(rotations(t).cpu(), rotations(rows))


def test_int4_is_read():
  weights = torch.arange(-4, 4, dtype=torch.int8).reshape(2, 4)
  int4 = torch_xla._XLAC._xla_cast_int4(
      weights.to('xla'),
      weights.flatten().tolist())
  scale, x = torch.ones(2).to('xla'), torch.ones(3, 4).to('xla')
  assert torch.ops.xla.quantized_matmul(
      x, int4, scale, int4_weight=True).shape == (3, 2)
  torch.testing.assert_close(int4.cpu(), weights)
  with pytest.raises(TypeError, match='cast int4 to another dtype'):
    (int4 + 1).cpu()
