"""`torch-xla-shardy export`, of a script that trains nothing."""

from __future__ import annotations

import functools
import os
from pathlib import Path
import subprocess
import sys

import processes
import pytest
from torch_xla_shardy.main import main

pytest.importorskip('jaxlib', reason='needs jaxlib: MLIR')

ENVIRONMENT = {}  # Beside the tests that need no child.
_SCRIPT = '''
import os, sys
import numpy as np
import torch, torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
xr.use_spmd()
mesh = xs.Mesh(np.arange(8), (8,), ('data',))
x = torch.ones(8, 4).to('xla')
xs.mark_sharding(x, mesh, ('data', None), priority=(1, None))
y = x + 1
torch_xla.sync()
os.chdir('/')
assert sys.argv[1:] == ['--folder', 'mine']
'''


def _run(folder: str, arguments: list[str]) -> None:
  os.chdir(folder)
  sys.exit(main(['export', *arguments]))


def export(folder: Path, script: str, *arguments:
           str) -> subprocess.CompletedProcess[str]:
  (folder / 'script.py').write_text(script)
  return processes.ended(
      functools.partial(_run, str(folder),
                        [*arguments, 'script.py', '--folder', 'mine']),
      PJRT_DEVICE='CPU',
      CPU_NUM_DEVICES='8')


def test_programs_are_written(tmp_path: Path):
  done = export(tmp_path, _SCRIPT)
  assert done.returncode == 0, done.stderr
  program, described = sorted((tmp_path / 'stablehlo').iterdir())
  assert described.name == f'{program.name}.json'
  assert program.name.startswith('000-') and program.suffix == '.mlir'
  assert done.stdout == f'{program.relative_to(tmp_path)}\n'
  assert '[{"data"}p1, {?}' in program.read_text() or ('[{"data"}p1, {}]'
                                                       in program.read_text())


def test_a_script_that_fails_and_artifacts(tmp_path: Path):
  done = export(tmp_path, f'{_SCRIPT}raise KeyError("mine")', '--quiet',
                '--artifact', '1.9.0', '--folder', 'made', '--form', 'plain')
  assert (done.returncode, done.stdout) == (3, ''), done.stderr
  assert ("script.py failed (KeyError: 'mine'): what it compiled until "
          'then is in') in done.stderr
  program, = (tmp_path / 'made').glob('*.mlirbc')
  assert program.read_bytes().startswith(b'ML\xefR\rStableHLO_v1.9.0')


def test_a_script_that_compiles_nothing(tmp_path: Path):
  done = export(tmp_path, 'import torch_xla')
  assert done.returncode == 2
  assert 'script.py compiled no program: have it compute' in done.stderr
