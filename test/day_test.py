"""examples/day.py: a run that another process resumes on another mesh."""

import functools
from pathlib import Path
import re
import runpy
import shutil
import sys

import processes
import pytest

pytestmark = pytest.mark.slow

_EXAMPLE = str(Path(__file__).parents[1] / 'examples' / 'day.py')


def _main(arguments: list[str]) -> None:
  sys.argv[:] = [_EXAMPLE, *arguments]
  runpy.run_path(_EXAMPLE, run_name='__main__')


def _run(folder: Path, *arguments: str) -> dict[str, float]:
  """What the example prints: the loss of each step, and of the evaluation."""
  done = processes.ended(
      functools.partial(_main, [str(folder), *arguments]),
      PJRT_DEVICE='CPU',
      CPU_NUM_DEVICES='8',
      XLA_USE_SHARDY='1')
  assert done.returncode == 0, done.stderr
  losses = re.findall(r'(step \d+|evaluation): loss (\S+)', done.stdout)
  assert 'generated: [' in done.stdout
  return {name: float(loss) for name, loss in losses}


def test_resumed_run_has_the_losses_of_one_that_was_not_stopped(tmp_path):
  whole = _run(tmp_path / 'whole', '--until', '2')
  assert list(whole) == ['step 1', 'step 2', 'evaluation']
  shutil.copytree(tmp_path / 'whole' / '1', tmp_path / 'resumed' / '1')
  resumed = _run(tmp_path / 'resumed', '--until', '2', '--mesh', '4x2')
  assert resumed == pytest.approx(
      {name: whole[name] for name in list(whole)[1:]}, abs=2e-3)
