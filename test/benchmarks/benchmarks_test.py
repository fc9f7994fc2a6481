"""The benchmarks run, and count traces right; nothing here looks at times."""

import json
from pathlib import Path
import subprocess
import sys

import pytest

ROOT = Path(__file__).resolve().parents[2]
_SECONDS = 600


def run_benchmarks(*arguments: str) -> subprocess.CompletedProcess:
  return subprocess.run([sys.executable, '-m', 'benchmarks.run', *arguments],
                        cwd=ROOT,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                        text=True,
                        timeout=_SECONDS,
                        check=False)


@pytest.mark.nightly
def test_a_quick_run_has_each_figure(tmp_path):
  file = tmp_path / 'figures.json'
  done = run_benchmarks('--quick', '--json', str(file))
  assert done.returncode == 0, done.stderr
  figures = json.loads(file.read_text())['figures']
  assert list(figures) == ['retrace', 'demo-step', 'read']
  assert done.stdout.count('target: ') == 3
  loop, = figures['retrace']
  assert loop['traces'] == {'official': loop['steps'], 'ours': 1}
  # Placements are compared at each call.
  assert loop['breakdown']['sharding check']['ours'] > 0
  losses = [s[0]['losses'] for s in figures['demo-step']['samples'].values()]
  for loss in losses:
    assert loss == pytest.approx(losses[0], rel=1e-3)
  for figure in ('demo-step', 'read'):
    for name, reports in figures[figure]['samples'].items():
      assert ('+shardy' in reports[0]['version']) == name.startswith('ours')


def test_help_names_the_figures():
  done = run_benchmarks('--help')
  assert done.returncode == 0
  assert '{retrace,demo-step,read}' in done.stdout


@pytest.mark.parametrize('arguments', [('--rounds', '0'), ('--only', 'speed')])
def test_bad_arguments_are_refused(arguments):
  done = run_benchmarks(*arguments)
  assert done.returncode == 2
  assert arguments[0] in done.stderr
