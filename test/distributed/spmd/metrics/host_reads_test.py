"""Which reads to the host are warned of on a mesh, and where."""

import inspect
import warnings

import environments
import pytest
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch_xla.distributed.spmd import metrics
import torch_xla.distributed.spmd as xs
from torch_xla.distributed.spmd.metrics import host_reads

ENVIRONMENT = environments.DEVICES

_DEVICES = 8

# The ways to read a tensor of one element, and how the warning names each.
_READS = {
    'item': lambda t: t.item(),
    'tolist': lambda t: t.tolist(),
    'cpu': lambda t: t.cpu(),
    'to': lambda t: t.to('cpu'),
    'to device': lambda t: t.to(device=torch.device('cpu')),
    'to other': lambda t: t.to(torch.zeros(1)),
    'copy_': lambda t: torch.zeros(1).copy_(t),
    '__bool__': lambda t: 1 if t else 0,
    '__int__': lambda t: int(t),
    '__float__': lambda t: float(t),
    '__complex__': lambda t: complex(t),
    '__repr__': lambda t: str(t),
    '__format__': lambda t: f'{t}',
    '__contains__': lambda t: 3.0 in t,
    'equal': lambda t: torch.equal(t, t),
    'allclose': lambda t: torch.allclose(t, t),
    'is_nonzero': lambda t: torch.is_nonzero(t),
}


@pytest.fixture
def differing(mesh):
  """A tensor that is called replicated, with other data on each device."""
  return torch_xla._XLAC._global_tensor_from_cpu_shards(
      [torch.full((1,), float(i)) for i in range(_DEVICES)],
      torch_xla._XLAC.OpSharding([], [], [], xs.ShardingType.REPLICATED))


def warnings_of(function, *args):
  with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter('always')
    with host_reads.watch_host_reads():
      function(*args)
  return [w for w in caught if w.category is host_reads.LocalReadWarning]


@pytest.mark.parametrize('name', _READS)
def test_read_of_differing_copies(differing, name):
  read = _READS[name]
  warning, = warnings_of(read, differing)
  message = str(warning.message)
  assert message.startswith(
      f'{name.split()[0]} reads a value that is not global: ')
  assert 'CPU:0 and CPU:1' in message
  assert warning.filename == __file__
  assert warning.lineno == read.__code__.co_firstlineno


@pytest.mark.parametrize('name', _READS)
def test_no_warning_of_a_global_value(mesh, name):
  t = torch.ones(1, device='xla')
  assert not warnings_of(_READS[name], t)
  assert not warnings_of(_READS[name], t * 2)


def test_what_is_read_stays_what_it_was(mesh):
  t = torch.arange(6.0).reshape(2, 3)
  device_tensor = t.to('xla')
  with host_reads.watch_host_reads():
    assert torch.equal(device_tensor.cpu(), t)
    assert device_tensor.sum().item() == 15
    assert device_tensor.tolist() == t.tolist()
    assert not device_tensor[0, 0]


def test_manual_sharding(mesh):
  t = torch.arange(64.0).reshape(16, 4).to('xla')
  local = xs.enable_manual_sharding(t, ('data', 'model'), mesh=mesh)
  loss = (local.global_tensor * 2).sum()

  # Reading a manual value aborts the process; what is under test comes before.
  class Read(Exception):
    pass

  class Stop(torch.overrides.TorchFunctionMode):

    def __torch_function__(self, func, types, args=(), kwargs=None):
      if func is torch.Tensor.item:
        raise Read
      return func(*args, **(kwargs or {}))

  def read():
    with pytest.raises(Read):
      loss.item()

  with Stop():
    warning, = warnings_of(read)
  assert 'item' in str(warning.message)
  assert 'manual sharding' in str(warning.message)
  assert 'disable_manual_sharding' in str(warning.message)


@pytest.mark.parametrize('spec', [('data', 'model'), (None, 'model'),
                                  (None, None), (('data', 'model'), None)])
def test_sharded_tensors_are_gathered_and_no_warning(mesh, spec):
  t = torch.randn(13, 6).to('xla')
  wrapped = xs.mark_sharding(t, mesh, spec)
  assert not warnings_of(lambda: (t.cpu(), wrapped.cpu(), (t * 2).cpu(),
                                  (t @ t.T).sum().item()))


def test_copies_that_differ_in_part(mesh):
  t = torch_xla._XLAC._global_tensor_from_cpu_shards(
      [torch.full((4, 3), float(i // 5)) for i in range(_DEVICES)],
      mesh.get_op_sharding(('data', None)))
  warning, = warnings_of(lambda: t.cpu())
  assert 'CPU:4 and CPU:5' in str(warning.message)


def test_once_per_line(differing):

  def step():
    differing.item()
    differing.item()

  caught = warnings_of(lambda: [step() for _ in range(3)])
  first = inspect.getsourcelines(step)[1]
  assert [w.lineno for w in caught] == [first + 1, first + 2]


def test_what_is_no_read(differing, mesh):

  def work():
    t = differing + 1
    t = t.to(torch.float64).to('xla')
    xm.mark_step()
    torch.zeros(1, device='xla').copy_(t)
    torch.ones(3).cpu().tolist()
    return repr(t.shape)

  assert not warnings_of(work)


def test_what_torch_xla_reads_itself(differing, mesh):

  def check():
    with pytest.raises(metrics.LocalValueError):
      metrics.global_sum(differing)
    xm.mesh_reduce('test', torch.ones(1, device='xla'), sum)

  assert not warnings_of(check)


def test_nothing_is_watched_outside(differing):
  warnings_of(lambda: None)
  with warnings.catch_warnings():
    warnings.simplefilter('error')
    differing.item()
