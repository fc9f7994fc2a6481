"""What is saved sharded is loaded bit for bit: on another mesh, or on none."""

from __future__ import annotations

from pathlib import Path
import subprocess
import sys
from typing import Any

import environments
from fsspec.implementations.local import LocalFileSystem
import numpy as np
import processes
import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dist_cp
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.spmd as xs
from torch_xla.experimental.distributed_checkpoint import (
    CheckpointManager, missing_from_checkpoint, prime_optimizer,
    SPMDLoadPlanner, SPMDSavePlanner)
import torch_xla.runtime as xr

ENVIRONMENT = environments.DEVICES
pytestmark = pytest.mark.usefixtures('spmd')

_MESHES = {
    '2x4': (np.arange(8), (2, 4), ('a', 'b')),
    '4x2': (np.arange(8), (4, 2), ('b', 'a')),
    'permuted': (np.array([5, 2, 7, 0, 1, 6, 3, 4]), (2, 4), ('a', 'b')),
    '2x2x2': (np.arange(8), (2, 2, 2), ('a', 'b', 'c')),
}
_OTHER = {'2x4': 'permuted', 'permuted': '4x2', '4x2': '2x2x2', '2x2x2': '2x4'}
_SPECS = ((None, None), ('a', None), (None, 'a'), ('b', None), (None, 'b'),
          ('a', 'b'), ('b', 'a'), (('a', 'b'), None), (None, ('b', 'a')))
_TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16,
          torch.float8_e4m3fn, torch.float8_e5m2, torch.int8, torch.int16,
          torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32,
          torch.bool, torch.complex64)


def _save(folder: Path, state: dict[str, Any]) -> None:
  dist_cp.save(
      state,
      storage_writer=dist_cp.FileSystemWriter(folder),
      planner=SPMDSavePlanner(),
      no_dist=True)


def _load(folder: Path, state: dict[str, Any], **options: Any) -> None:
  dist_cp.load(
      state,
      storage_reader=dist_cp.FileSystemReader(folder),
      no_dist=True,
      **options)


def _bits(tensor: torch.Tensor) -> tuple[torch.dtype, torch.Size, bytes]:
  tensor = tensor.detach().cpu().contiguous()
  data = tensor.reshape(-1).view(torch.uint8).numpy().tobytes()
  return tensor.dtype, tensor.shape, data


def _marked(tensor: torch.Tensor, mesh: xs.Mesh, spec: Any) -> torch.Tensor:
  tensor = tensor.to('xla')
  xs.mark_sharding(tensor, mesh, spec)
  return tensor


def _elements(folder: Path) -> dict[str, int]:
  """How many elements of each tensor are stored."""
  metadata = dist_cp.FileSystemReader(folder).read_metadata()
  return {
      name: sum(c.sizes.numel() for c in entry.chunks)
      for name, entry in metadata.state_dict_metadata.items()
      if hasattr(entry, 'chunks')
  }


def _check(folder: Path, values: dict[str, torch.Tensor],
           saved: dict[str, torch.Tensor], loaded: dict[str,
                                                        torch.Tensor]) -> None:
  _save(folder, saved)
  assert not missing_from_checkpoint(str(folder))
  assert _elements(folder) == {n: v.numel() for n, v in values.items()}
  _load(folder, loaded, planner=SPMDLoadPlanner())
  plain = {n: torch.zeros_like(v) for n, v in values.items()}
  _load(folder, plain)
  for name, value in values.items():
    assert _bits(loaded[name]) == _bits(value), name
    assert _bits(plain[name]) == _bits(value), name


@pytest.mark.parametrize('mesh', [
    '2x4',
    *(pytest.param(m, marks=pytest.mark.nightly)
      for m in ('permuted', '4x2', '2x2x2')),
])
def test_each_placement(tmp_path: Path, mesh: str) -> None:
  """Uneven too, of any rank, and without an element; then on another mesh."""
  saved_on, other = xs.Mesh(*_MESHES[mesh]), xs.Mesh(*_MESHES[_OTHER[mesh]])
  values = {f'{spec}': (torch.randn(5, 11), spec) for spec in _SPECS}
  for value in (torch.randn(()), torch.randn(3), torch.zeros(0, 8)):
    rest = (None,) * (value.dim() - 1)
    values[f'{value.dim()}'] = value, ('a', *rest) if value.dim() else ()
  _check(tmp_path, {
      n: v for n, (v, _) in values.items()
  }, {
      n: _marked(v, saved_on, spec) for n, (v, spec) in values.items()
  }, {
      n: _marked(torch.zeros_like(v), other, spec[::-1])
      for n, (v, spec) in values.items()
  })


def test_each_type(tmp_path: Path) -> None:
  mesh, values = xs.Mesh(*_MESHES['2x4']), {}
  for dtype in _TYPES:
    if dtype.is_complex:
      value = torch.randn(7, 8, dtype=dtype)
    else:
      value = (torch.randn(7, 8) * 100).to(torch.int64)
      value = (value % 2 if dtype == torch.bool else value).to(dtype)
    values[str(dtype)] = value
  saved = {n: _marked(v, mesh, ('a', None)) for n, v in values.items()}
  loaded = {
      n: _marked(torch.zeros_like(v), mesh, (None, 'b'))
      for n, v in values.items()
  }
  _check(tmp_path, values, saved, loaded)


def test_a_failed_async_save_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
  dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)
  manager = CheckpointManager(tmp_path / 'steps', 1, chkpt_on_preemption=False)
  (tmp_path / 'steps').rmdir()
  (tmp_path / 'steps').touch()
  manager.save_async(1, {'t': torch.ones(2).to('xla')})
  manager._async_worker_pool.shutdown()  # As the interpreter's end does.
  assert 'of step 1 failed' in caplog.text
  with pytest.raises(dist_cp.CheckpointException):
    manager.join()
  dist.destroy_process_group()


def test_processes_make_one_folder(tmp_path: Path,
                                   monkeypatch: pytest.MonkeyPatch) -> None:
  path = tmp_path / 'steps'

  def exists(fs: LocalFileSystem, of: str) -> bool:
    existed = Path(of).exists()
    path.mkdir(exist_ok=True)  # By another process.
    return existed

  monkeypatch.setattr(LocalFileSystem, 'exists', exists)
  dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)
  CheckpointManager(path, 1, chkpt_on_preemption=False)
  dist.destroy_process_group()


@pytest.mark.nightly
def test_a_failed_async_save_ends_with_status_1(tmp_path: Path) -> None:
  (tmp_path / 'steps').mkdir()
  ended = subprocess.run([sys.executable, '-c', _NO_JOIN, tmp_path / 'steps'],
                         capture_output=True,
                         text=True,
                         check=False)
  assert ended.returncode == 1, ended.stderr
  assert ended.stdout.endswith('cleaned up\n')


_NO_JOIN = '''
import atexit, os, sys, torch, torch.distributed as dist, torch_xla
from torch_xla.experimental.distributed_checkpoint import CheckpointManager
dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)
manager = CheckpointManager(sys.argv[1], 1, chkpt_on_preemption=False)
os.rmdir(sys.argv[1])
open(sys.argv[1], 'w').close()
atexit.register(print, 'cleaned up')
manager.save_async(1, {'t': torch.ones(2)})
'''


def test_complex128_is_refused(tmp_path: Path) -> None:
  value = torch.ones(8, dtype=torch.complex128).to('xla')
  with pytest.raises(dist_cp.CheckpointException, match='view_as_real'):
    _save(tmp_path, {'value': value})


def test_objects_keep_their_keys(tmp_path: Path) -> None:
  """Adafactor counts its steps in Python, under the parameter's number."""
  _save(tmp_path, {'state': {0: {'step': 5, 't': torch.ones(2).to('xla')}}})
  state = {'state': {0: {'step': 0, 't': torch.zeros(2).to('xla')}}}
  _load(tmp_path, state, planner=SPMDLoadPlanner())
  assert state['state'].keys() == {0} and state['state'][0]['step'] == 5


def test_torch_loads_onto_a_device(tmp_path: Path) -> None:
  torch.save({'t': torch.ones(2)}, tmp_path / 'file')
  loaded = torch.load(tmp_path / 'file', map_location='xla')['t']
  assert loaded.device.type == 'xla' and loaded.tolist() == [1, 1]


def _training(mesh: str, spec: Any) -> tuple[torch.nn.Module, Any]:
  torch.manual_seed(0)
  model = torch.nn.Linear(8, 12).to('xla')
  xs.mark_sharding(model.weight, xs.Mesh(*_MESHES[mesh]), spec)
  return model, torch.optim.AdamW(model.parameters(), lr=0.1)


def _step(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
  optimizer.zero_grad()
  model(torch.randn(4, 8).to('xla')).square().mean().backward()
  optimizer.step()


def _state(model: torch.nn.Module, optimizer: torch.optim.Optimizer,
           epoch: int) -> dict[str, Any]:
  return {
      'model': model.state_dict(),
      'optimizer': optimizer.state_dict(),
      'xla rng': xm.get_rng_state(),
      'torch rng': torch.get_rng_state(),
      'epoch': epoch,
  }


def _tensors(state: dict[str, Any]) -> list[Any]:
  return [
      _bits(x) if isinstance(x, torch.Tensor) else x
      for x in torch.utils._pytree.tree_leaves(state)
  ]


def test_the_state_of_training(tmp_path: Path) -> None:
  """What nobody marked as well, which the compiler placed, and what is pending."""
  model, optimizer = _training('2x4', ('b', None))
  _step(model, optimizer)
  torch_xla.sync()
  _step(model, optimizer)
  xm.set_rng_state(7)
  state = _state(model, optimizer, 3)
  _save(tmp_path, state)
  assert not missing_from_checkpoint(str(tmp_path))
  expected = _tensors(state)

  xm.set_rng_state(8)
  model, optimizer = _training('4x2', (None, 'b'))
  prime_optimizer(optimizer)
  state = _state(model, optimizer, 0)
  _load(tmp_path, state, planner=SPMDLoadPlanner())
  assert _tensors(state) == expected
  optimizer.load_state_dict(state['optimizer'])
  xm.set_rng_state(state['xla rng'])
  assert _tensors(_state(model, optimizer, 3))[:2] == expected[:2]


def _save_marked(folder: str) -> Any:
  xr.use_spmd()
  torch.manual_seed(0)
  value = torch.randn(5, 8)
  marked = _marked(value, xs.Mesh(*_MESHES['2x4']), ('a', None))
  _save(Path(folder), {'t': marked})
  return _bits(value)


def _load_on_one_device(folder: str) -> Any:
  state = {'t': torch.zeros(5, 8).to('xla')}
  _load(Path(folder), state, planner=SPMDLoadPlanner())
  return _bits(state['t'])


@pytest.mark.slow
def test_other_processes(tmp_path: Path) -> None:
  """One device that is not in SPMD, and torch with no torch_xla."""
  expected = processes.call(_save_marked, str(tmp_path), **ENVIRONMENT).value
  assert processes.call(
      _load_on_one_device,
      str(tmp_path),
      PJRT_DEVICE='CPU',
      CPU_NUM_DEVICES='1').value == expected
  ended = subprocess.run([sys.executable, '-c', _PLAIN, tmp_path],
                         capture_output=True,
                         text=True,
                         check=False)
  assert ended.stdout == expected[2].hex() + ' False\n', ended.stderr


_PLAIN = '''
import sys, torch, torch.distributed.checkpoint as dist_cp
state = {'t': torch.zeros(5, 8)}
dist_cp.load(state, checkpoint_id=sys.argv[1], no_dist=True)
print(state['t'].numpy().tobytes().hex(), 'torch_xla' in sys.modules)
'''
