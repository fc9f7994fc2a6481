"""Whether a checkpoint is whole, as `doctor --checkpoint` tells."""

from __future__ import annotations

import os
from pathlib import Path
import pickle

import processes
import pytest
import torch
import torch.distributed.checkpoint as dist_cp
from torch_xla.shardy.doctor import Status
from torch_xla.shardy.doctor.checkpoint import check_checkpoint


def _saved(folder: Path) -> str:
  state = {'model': {'weight': torch.ones(2, 3), 'bias': torch.ones(2)}}
  dist_cp.save(
      state, storage_writer=dist_cp.FileSystemWriter(folder), no_dist=True)
  return str(folder)


def _lose(folder: Path) -> None:
  """What torch_xla 2.9 does to tensors that are partly replicated."""
  path = folder / '.metadata'
  metadata = pickle.loads(path.read_bytes())
  del metadata.state_dict_metadata['model.weight']
  path.write_bytes(pickle.dumps(metadata))


def test_a_whole_checkpoint(tmp_path: Path) -> None:
  folder = _saved(tmp_path)
  finding, = check_checkpoint(folder).findings
  assert finding.status is Status.OK and folder in finding.message


def test_each_step_of_a_manager(tmp_path: Path) -> None:
  for step in ('2', '10', '9'):
    _saved(tmp_path / step)
  _lose(tmp_path / '9')
  for file in (tmp_path / '10').glob('*.distcp'):
    os.truncate(file, 100)
  two, nine, ten = check_checkpoint(str(tmp_path)).findings
  assert two.status is Status.OK
  assert nine.status is Status.ERROR
  assert nine.message == f'{tmp_path}/9 has of model.weight nothing'
  assert 'leave these out' in nine.remedy
  assert 'of model.bias its file __0_0.distcp is cut off' in ten.message


def test_no_checkpoint(tmp_path: Path) -> None:
  finding, = check_checkpoint(str(tmp_path)).findings
  assert finding.status is Status.ERROR and '.metadata' in finding.message
  (tmp_path / '.metadata').write_bytes(b'nonsense')
  finding, = check_checkpoint(str(tmp_path)).findings
  assert finding.status is Status.ERROR and 'cannot be read' in finding.message


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
  folder = _saved(tmp_path)
  _lose(tmp_path)
  ended = processes.command(
      'torch_xla.shardy', 'doctor', '--checkpoint', folder, PJRT_DEVICE='CPU')
  assert ended.returncode == 1
  assert 'of model.weight nothing' in ' '.join(ended.stdout.split())
