"""Real processes racing for the directories of the compilation cache."""

import fcntl

from benchmarks import cache_race
from benchmarks.errors import BenchmarkError
import pytest

_PROCESSES = 8


# Nobody comes after the writer who is killed last.
@pytest.mark.parametrize('rounds, killed, taken_over', [
    pytest.param(3, 1, 1, marks=pytest.mark.slow),
    pytest.param(10, 5, 4, marks=pytest.mark.nightly),
])
def test_one_writer_nothing_lost_and_dead_writers_taken_over(
    tmp_path, rounds, killed, taken_over):
  tally = cache_race.race(str(tmp_path), rounds, _PROCESSES)
  assert tally.refused == rounds * (_PROCESSES - 1)
  assert tally.killed == killed
  assert tally.taken_over == taken_over
  assert tally.stored >= rounds * 3
  assert tally.read > 0


def test_the_race_notices_locks_that_do_not_lock(tmp_path, monkeypatch):
  monkeypatch.setattr(fcntl, 'flock', lambda file, how: None)
  with pytest.raises(BenchmarkError, match='2 writers in round 0'):
    cache_race.race(str(tmp_path), rounds=1, processes=_PROCESSES)
