"""What looks at a script sees one that trains under autocast."""

from __future__ import annotations

from pathlib import Path
import subprocess
import sys

from processes import clean_environment
import pytest

_SCRIPT = '''
import numpy as np, torch, torch_xla
import torch_xla.amp
import torch_xla.distributed.spmd as xs, torch_xla.runtime as xr
xr.use_spmd()
devices = xr.global_runtime_device_count()
mesh = xs.Mesh(np.arange(devices), (2, devices // 2), ('data', 'model'))
model = torch.nn.Linear(16, 64).to('xla')
xs.mark_sharding(model.weight, mesh, ('model', None))
optimizer = torch.optim.SGD(model.parameters(), .1)
for autocast in (torch_xla.amp.autocast, torch.autocast):
  with autocast('xla', dtype=torch.bfloat16):
    y = model(torch.randn(8, 16).to('xla'))
    assert y.dtype == torch.bfloat16
  y.float().square().mean().backward()
  optimizer.step()
  torch_xla.sync()
'''


@pytest.mark.nightly
@pytest.mark.parametrize('command', [('audit',), ('explain',),
                                     ('aot', '--topology', 'v5e:2x4')])
def test_a_script_under_autocast(command: tuple[str, ...],
                                 tmp_path: Path) -> None:
  (tmp_path / 'script.py').write_text(_SCRIPT)
  done = subprocess.run(
      [sys.executable, '-m', 'torch_xla.shardy', *command, 'script.py'],
      cwd=tmp_path,
      env=clean_environment(
          PJRT_DEVICE='CPU', CPU_NUM_DEVICES='8', XLA_USE_SHARDY='1'),
      capture_output=True,
      text=True,
      timeout=300,
      check=False)
  assert done.returncode == 0, done.stderr
  assert 'SyncTensorsGraph' in done.stdout
