"""A process with the mode on: every program passes the door, numbers hold."""

import gc
import os
import signal
import threading

import environments
import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.profiler as xp
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy import door
from torch_xla.shardy.hlo import compile_options, messages, protos
from torch_xla.shardy.hlo.compile_options import Partitioner
import v2_programs

ENVIRONMENT = environments.V2
pytestmark = pytest.mark.usefixtures('spmd')
close = torch.testing.assert_close


@pytest.fixture(name='mesh')
def mesh_fixture() -> xs.Mesh:
  torch._dynamo.reset()
  return xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))


def test_devices():
  assert xr.device_type() == 'XLACPU'
  assert xr.global_runtime_device_count() == 8
  assert xm.xla_device_hw(torch_xla.device()) == 'CPU'
  # Of the virtual device, of which `_XLAC` knows nothing (pytorch/xla#9535).
  assert xm.xla_device_kind() == xm.xla_device_kind('xla:0') == 'cpu'
  assert xr.runtime_device_attributes('xla:0') == {'name': 'CPU:0'}
  with pytest.raises(IndexError):
    xm.xla_device_kind('xla:1')


def test_lazy_step_is_recorded(mesh):
  torch.manual_seed(0)
  w, x = torch.randn(16, 8), torch.randn(4, 8)
  on_device = w.to('xla')
  xs.mark_sharding(on_device, mesh, ('y', None))
  torch_xla.sync()
  with torch_xla.shardy.record() as programs:
    y = F.linear(x.to('xla'), on_device).relu()
    torch_xla.sync()
  close(y.cpu(), F.linear(x, w).relu())
  program, = programs
  assert program.name.startswith('SyncTensorsGraph')
  assert program.format == 'hlo'
  assert program.options == compile_options.CompileOptions(
      Partitioner.GSPMD, num_replicas=1, num_partitions=8)
  assert program.seconds > 0
  assert program.error is None
  assert not program.note
  assert program.handed_on == v2_programs.emit(program.sent).program
  assert program.handed_on != program.sent
  assert (program.shardings.v2, program.shardings.v1) == (1, 0)
  assert messages.parse(protos.HloModuleProto,
                        program.sent).name == program.name
  assert program.options_handed_on == program.options_sent
  # What is kept for good is the same, less the bytes.
  assert torch_xla.shardy.programs()[-2:] != ()
  assert program.without_programs() in torch_xla.shardy.programs()


def test_a_read_is_compiled_once(mesh):
  """`_XLAC` asks at each (pytorch/xla#9751)."""
  host = torch.randn(16, 8)
  tensor = host.to('xla')
  xs.mark_sharding(tensor, mesh, ('x', 'y'))
  torch_xla.sync()
  before, compiles = len(torch_xla.shardy.programs()), []
  undo = door.wrap(
      lambda compilation, rest: rest(_Counted(compilation, compiles)))
  for _ in range(6):
    assert torch.equal(tensor.cpu(), host)
  with torch_xla.shardy.record() as programs:
    assert torch.equal(tensor.cpu(), host)
  undo()
  assert len(compiles) == 1
  read, = torch_xla.shardy.programs()[before:]
  assert read.name.startswith('ReplicateShardedData')
  assert read.reused == 6
  again, = programs
  assert (again.reused, again.seconds, again.sent) == (1, 0., compiles[0])


class _Counted:
  """A compilation that notes what the backend is to compile."""

  def __init__(self, inner: door.Compilation, compiles: list[bytes]):
    self._inner, self._compiles = inner, compiles

  def __getattr__(self, name: str):
    return getattr(self._inner, name)

  def compile(self, program: bytes, *rest) -> None:
    self._compiles.append(self._inner.program)
    self._inner.compile(program, *rest)


def test_records_nest_and_end(mesh):
  del mesh
  x = torch.ones(3).to('xla')
  with torch_xla.shardy.record() as outer:
    (x * 2).cpu()
    with torch_xla.shardy.record() as inner:
      (x * 3 + 1).cpu()
  before = len(outer)
  (x * 5 - 4).cpu()
  assert len(inner) >= 1
  assert len(outer) == before > len(inner)
  assert outer[-len(inner):] == inner


def test_torch_compile(mesh):
  w, x = torch.randn(8, 8), torch.randn(8, 8)
  on_device = w.to('xla')
  xs.mark_sharding(on_device, mesh, (None, 'y'))
  f = torch.compile(lambda x: (x @ on_device).tanh(), backend='openxla')
  fed = x.to('xla')
  y = f(fed)
  with torch_xla.shardy.record() as programs:
    for _ in range(3):
      y = f(fed)
    torch_xla.sync()
  assert programs == []
  close(y.cpu(), (x @ w).tanh())


@pytest.mark.nightly
def test_400_queued_collective_steps(mesh):
  """It aborts with as many threads as devices: see device_plugins.py."""
  torch.manual_seed(0)
  up, down = (torch.randn(1024, 1024).to('xla') for _ in range(2))
  x = torch.zeros(256, 1024).to('xla')
  for tensor, spec in ((up, ('y', None)), (down, (None, 'y')), (x, ('x',
                                                                    None))):
    xs.mark_sharding(tensor, mesh, spec)
  torch_xla.sync()
  with torch_xla.shardy.record() as programs:
    for _ in range(400):
      x = F.linear(F.linear(x, up).relu(), down) * 1e-4 + 1
      xs.mark_sharding(x, mesh, ('x', None))
      torch_xla.sync()
  assert len(programs) <= 2
  up, down, y = up.cpu(), down.cpu(), torch.zeros(1, 1024)
  for _ in range(400):
    y = F.linear(F.linear(y, up).relu(), down) * 1e-4 + 1
  close(x.cpu(), y.expand(256, -1), rtol=1e-3, atol=1e-3)


def test_exception_in_a_wrapper_is_the_compile_error(mesh, wrap):
  del mesh

  def broken(compilation, rest):
    raise KeyError(f'no rule for {compilation.format}')

  wrap(broken)
  with pytest.raises(Exception, match='KeyError: .*no rule for hlo'):
    (torch.ones(5).to('xla') * 7 - 2).cpu()


@pytest.mark.parametrize('read', [
    lambda t: torch_xla.sync(), torch.Tensor.cpu, torch.Tensor.sum,
    torch.compile(lambda t: t * 9, backend='openxla')
])
def test_ctrl_c_reaches_who_called_when_the_call_is_back(mesh, wrap, read):
  """Nothing is lost: the compile ends as without it."""

  def interrupted(compilation, rest):
    os.kill(os.getpid(), signal.SIGINT)
    rest(compilation)

  x = torch.rand(8, 8)
  t = x.to('xla')
  xs.mark_sharding(t, mesh, ('x', 'y'))
  torch_xla.sync()
  double = t * 2
  undo = wrap(interrupted)
  with pytest.raises(KeyboardInterrupt):
    str(read(double))
  undo()
  close(double.cpu(), x * 2)


def test_a_failed_compile_that_was_caught_is_over(mesh, wrap):
  """No frame of the error's holds tensors, which would fail each later sync."""
  del mesh

  def broken(compilation, rest):
    compilation.program = b'\xff' + compilation.program
    rest(compilation)

  def fail():
    t = torch.ones(5).to('xla') * 7
    with pytest.raises(ValueError, match='not a valid HloModuleProto'):
      torch_xla.sync()
    del t

  undo = wrap(broken)
  gc.disable()
  try:
    fail()
    on_thread = threading.Thread(target=fail)
    on_thread.start()
    on_thread.join()
    undo()
    close((torch.ones(5).to('xla') + 1).cpu(), torch.full((5,), 2.))
  finally:
    gc.enable()


@pytest.mark.environment(**environments.SHARDY)
# Without a frame in Python of their own.
@pytest.mark.parametrize(
    'read', [torch.Tensor.cpu, torch.Tensor.tolist,
             torch.zeros(8).copy_])
def test_an_error_that_is_kept_keeps_no_tensor(mesh, wrap, read):

  def broken(compilation, rest):
    compilation.program = b'\xff' + compilation.program
    rest(compilation)

  scale = torch.ones(8).to('xla')
  xs.mark_sharding(scale, mesh, ('x',), priority=(0,))
  torch_xla.sync()
  undo = wrap(broken)
  with pytest.raises(Exception, match='HloModuleProto') as error:
    read(torch.ones(8).to('xla') * 7 * scale)
  undo()
  torch_xla.sync()
  close((torch.ones(5).to('xla') + 1).cpu(), torch.full((5,), 2.))
  del error


def test_profiler_writes_a_trace(mesh, tmp_path):
  """XLA's CPU plugin has none: what the host did is told."""
  del mesh
  xp.start_trace(str(tmp_path))
  (torch.ones(5).to('xla') * 7).cpu()
  xp.stop_trace()
  assert {'.pb', '.gz'} <= {p.suffix for p in tmp_path.rglob('*')}


def test_wrapper_that_compiles_nothing(mesh, wrap):
  del mesh
  wrap(lambda compilation, rest: None)
  with pytest.raises(Exception, match='compiled nothing'):
    (torch.ones(6).to('xla') * 7 - 2).cpu()


def test_backend_error_comes_through_and_is_recorded(mesh, wrap):
  del mesh

  def damage(compilation, rest):
    # Cuts the module off: computations are missing, but it still parses.
    compilation.program = messages.make(
        protos.HloModuleProto, name='damaged').SerializeToString()
    rest(compilation)

  wrap(damage)
  with torch_xla.shardy.record() as programs:
    with pytest.raises(Exception) as raised:
      (torch.ones(7).to('xla') * 7 - 2).cpu()
  program, = programs
  assert program.name == 'damaged'
  assert program.error
  assert program.error.splitlines()[0] in str(raised.value)
