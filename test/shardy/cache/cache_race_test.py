"""Real processes racing for the directories of the compilation cache."""

from benchmarks import cache_race
import pytest

_PROCESSES = 8


@pytest.mark.slow
def test_one_writer_nothing_lost_and_dead_writers_taken_over(tmp_path):
  tally = cache_race.race(str(tmp_path), 3, _PROCESSES)
  assert tally.refused == 3 * (_PROCESSES - 1)
  assert tally.killed == 1
  assert tally.taken_over == 1
  assert tally.stored >= 9
  assert tally.read > 0
