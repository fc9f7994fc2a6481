"""The step that a script repeats after warm-up."""

from __future__ import annotations

import dataclasses

from ..report import Program, AotReport


@dataclasses.dataclass(frozen=True)
class SteadyStep:
  """The programs of one step after warm-up.

  Attributes:
    programs: each is run once in it, in this order.
    unknown: why they are not known; empty if they are.
  """
  programs: tuple[Program, ...] = ()
  unknown: str = ''


def steady_step(report: AotReport) -> SteadyStep:
  """The programs of the step that was the usual one after warm-up.

  A step executes a program at most once: the second time begins the next one.
  What runs in some steps only, such as an evaluation, is not among them.
  """
  never = never_steady(report)
  if never:
    return SteadyStep(unknown=never)
  if not report.usual_step:
    return SteadyStep(unknown='no step after warm-up executed a program')
  return SteadyStep(tuple(report.programs[i] for i in report.usual_step))


def never_steady(report: AotReport) -> str:
  """Why warm-up did not end in this run; empty if it did."""
  if report.steps > report.warm_up:
    return ''
  if not report.steps:
    return ('no step ended, so nothing is known of one after warm-up: let the '
            'script take more steps')
  if report.steps == 1:
    return ('only one step ended, and it compiled something: let the script '
            'take more steps')
  return (f'each of the {report.steps} steps that ended compiled something, so '
          'none is after warm-up')
