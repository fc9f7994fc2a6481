"""Real processes racing for the directories of the compilation cache."""

import fcntl

from benchmarks import cache_race
from benchmarks.errors import BenchmarkError
import pytest

_PROCESSES = 8


def test_one_writer_nothing_lost_and_dead_writers_taken_over(tmp_path):
  tally = cache_race.race(str(tmp_path), rounds=10, processes=_PROCESSES)
  assert tally.refused == 10 * (_PROCESSES - 1)
  assert tally.killed == 5
  assert tally.taken_over == 4  # Nobody came after the last.
  assert tally.stored >= 10 * 3
  assert tally.read > 0


def test_the_race_notices_locks_that_do_not_lock(tmp_path, monkeypatch):
  monkeypatch.setattr(fcntl, 'flock', lambda file, how: None)
  with pytest.raises(BenchmarkError, match='2 writers in round 0'):
    cache_race.race(str(tmp_path), rounds=1, processes=_PROCESSES)
