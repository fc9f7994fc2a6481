"""The benchmarks run, and count traces right; nothing here looks at times."""

import json
from pathlib import Path
import subprocess
import sys
from typing import Any, Dict, List, Tuple

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


@pytest.fixture(name='quick', scope='module')
def quick_fixture(tmp_path_factory) -> Tuple[str, Dict[str, Any]]:
  """The table and the JSON document of one quick run."""
  file = tmp_path_factory.mktemp('benchmarks') / 'figures.json'
  done = run_benchmarks('--quick', '--json', str(file))
  assert done.returncode == 0, done.stderr
  return done.stdout, json.loads(file.read_text())


@pytest.mark.nightly
def test_table_has_each_figure(quick):
  table, document = quick
  assert list(
      document['figures']) == ['retrace', 'demo-step', 'package', 'read']
  for text in ('torch.compile loop of pytorch/xla#9755', 'training step of',
               'import torch_xla, ms', 'installed size, MB', 'ms per read'):
    assert text in table
  assert table.count('target: ') == 5


@pytest.mark.nightly
def test_official_traces_every_step_and_ours_once(quick):
  (loop,) = quick[1]['figures']['retrace']
  assert loop['steps'] > 2
  assert loop['traces'] == {
      'official': loop['steps'],
      'ours': 1,
      'ours, always checking': 1
  }
  # In the steady state the check is over, unless it is told to go on.
  checks = loop['breakdown']['sharding check']
  assert checks['ours'] == 0 < checks['ours, always checking']


@pytest.mark.nightly
def test_every_variant_trains_the_same_model(quick):
  samples = quick[1]['figures']['demo-step']['samples']
  losses: List[List[float]] = [r[0]['losses'] for r in samples.values()]
  for loss in losses:
    assert loss == pytest.approx(losses[0], rel=1e-3)


@pytest.mark.nightly
def test_columns_ran_the_wheels_they_name(quick):
  for figure in ('demo-step', 'package', 'read'):
    for name, reports in quick[1]['figures'][figure]['samples'].items():
      assert ('+shardy' in reports[0]['version']) == name.startswith('ours')


@pytest.mark.nightly
def test_size_counts_the_whole_wheel(quick):
  size = quick[1]['figures']['package']['size']
  # _XLAC alone is some 300 MB, and ours adds files.
  assert 200e6 < size['official'] < size['ours']


def test_help_names_the_figures():
  done = run_benchmarks('--help')
  assert done.returncode == 0
  assert '{retrace,demo-step,package,read}' in done.stdout


@pytest.mark.parametrize('arguments', [('--rounds', '0'), ('--only', 'speed')])
def test_bad_arguments_are_refused(arguments):
  done = run_benchmarks(*arguments)
  assert done.returncode == 2
  assert arguments[0] in done.stderr
