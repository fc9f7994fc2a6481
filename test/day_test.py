"""examples/day.py: a run that another process resumes on another mesh."""

import os
from pathlib import Path
import re
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

_EXAMPLE = Path(__file__).parents[1] / 'examples' / 'day.py'


def _run(folder: Path, *arguments: str) -> dict[str, float]:
  """What the example prints: the loss of each step, and of the evaluation."""
  done = subprocess.run([sys.executable, _EXAMPLE, folder, *arguments],
                        env=os.environ | {'TF_CPP_MIN_LOG_LEVEL': '2'},
                        capture_output=True,
                        text=True,
                        check=False)
  assert done.returncode == 0, done.stderr
  losses = re.findall(r'(step \d+|evaluation): loss (\S+)', done.stdout)
  assert 'generated: [' in done.stdout
  return {name: float(loss) for name, loss in losses}


def test_resumed_run_has_the_losses_of_one_that_was_not_stopped(tmp_path):
  whole = _run(tmp_path / 'whole', '--until', '3')
  assert list(whole) == ['step 1', 'step 2', 'step 3', 'evaluation']
  shutil.copytree(tmp_path / 'whole' / '1', tmp_path / 'resumed' / '1')
  resumed = _run(tmp_path / 'resumed', '--until', '3', '--mesh', '4x2')
  assert resumed == pytest.approx(
      {name: whole[name] for name in list(whole)[1:]}, abs=2e-3)
