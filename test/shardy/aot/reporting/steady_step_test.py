"""Which programs one step after warm-up runs."""

from __future__ import annotations

import aot_reports as make
import pytest
from torch_xla.shardy.aot.report import kinds_of_steps


def test_what_the_usual_step_ran_in_its_order() -> None:
  start, step, update = make.start(), make.program(), make.program('update')
  report = make.report(start, step, update, usual_step=(2, 1), usual_steps=2)
  assert report.step_programs == (update, step)


@pytest.mark.parametrize('steps, why', [
    (0, 'no step ended'),
    (1, 'only one step ended, and it compiled something'),
    (3, 'each of the 3 steps that ended compiled something'),
])
def test_without_a_step_after_warm_up(steps: int, why: str) -> None:
  programs = [make.program(step=i) for i in range(max(steps, 1))]
  report = make.report(*programs, steps=steps, usual_step=())
  assert (report.step_programs, report.unknown_step[:len(why)]) == ((), why)


def test_without_a_program_in_it() -> None:
  report = make.report(make.start(), usual_step=())
  assert report.unknown_step == 'no step after warm-up executed a program'
  assert make.empty().unknown_step.startswith('no step ended')


def test_programs_after_warm_up() -> None:
  early, late = make.program(step=1), make.program(step=50)
  report = make.report(make.start(), early, late, steps=100)
  assert report.warm_up == 2
  assert report.programs_after_warm_up == (late,)


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
