"""The command line of the random programs."""

import subprocess

import processes
import pytest


def _fuzz(*arguments: str) -> subprocess.CompletedProcess:
  return processes.command('benchmarks.fuzz', *arguments)


@pytest.mark.nightly
@pytest.mark.parametrize('mode', [(), ('--stablehlo',)])
def test_some_programs(mode):
  done = _fuzz('--programs', '3', '--first', '6', '--print', *mode)
  assert done.returncode == 0, done.stderr
  assert [line for line in done.stdout.splitlines() if line[0:1] == '#'
         ] == ['# program 6', '# program 7', '# program 8']
  assert '3 programs from seed 6' in done.stdout
  for title in ('what became of them', 'who partitioned', 'why not Shardy'):
    assert title in done.stdout


@pytest.mark.nightly
def test_an_option_that_there_is_not():
  done = _fuzz('--progams', '3')
  assert done.returncode == 2 and 'unrecognized arguments' in done.stderr
