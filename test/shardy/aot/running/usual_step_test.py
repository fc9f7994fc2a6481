"""What a script does over and over."""

from __future__ import annotations

from torch_xla.shardy.aot.running.usual_step import kinds_of_steps


def test_the_kind_with_most_work_comes_first() -> None:
  """Training and evaluation of as many steps each."""
  executions = [(0, step) for step in range(5)]
  executions += [(1, step) for step in range(5, 11)]
  assert kinds_of_steps(executions, 11, 0, [3e9, 1e9]) == [((0,), 5), ((1,), 6)]


def test_before_warm_up_and_after_the_last_step_nothing_counts() -> None:
  executions = [(0, 0), (1, 1), (1, 2), (2, 3)]
  assert kinds_of_steps(executions, 3, 1, [9.0, 1.0, 9.0]) == [((1,), 2)]
  assert kinds_of_steps(executions, 1, 1, [9.0, 1.0, 9.0]) == []


def test_programs_are_in_the_order_in_which_they_ran() -> None:
  executions = [(2, 0), (0, 0), (2, 1), (0, 1), (0, 2), (2, 2)]
  assert kinds_of_steps(executions, 3, 0, [1.0, 1.0, 1.0]) == [((2, 0), 2),
                                                               ((0, 2), 1)]


def test_without_flops_the_most_frequent_comes_first() -> None:
  executions = [(0, 0), (1, 1), (1, 2), (0, 3), (1, 3)]
  assert kinds_of_steps(executions, 4, 0, [0, 0]) == [((1,), 2), ((0, 1), 1),
                                                      ((0,), 1)]
