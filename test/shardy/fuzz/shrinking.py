"""Makes a program that fails smaller, as long as it fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
import dataclasses
import re

from program_runs import Outcome
from random_programs import Input, Program, Step

# The last argument of `mark`, and what stands there without priorities.
_PRIORITY = re.compile(r', (?:\([^()]*\)|None)(\)?)$')
_MOST_ROUNDS = 40

Runner = Callable[[Sequence[Program]], Iterator[Outcome]]


def shrink(program: Program, outcome: Outcome, run: Runner) -> Program:
  """The smallest program found that has the same status.

  Args:
    run: the outcomes of programs, in order.
  """
  for _ in range(_MOST_ROUNDS):
    smaller = list(_smaller(program))
    for candidate, made in zip(smaller, run(smaller)):
      if made.status is outcome.status:
        program = candidate
        break
    else:
      break
  return program


def _smaller(program: Program) -> Iterator[Program]:
  """Programs with one thing less; the boldest first."""
  for result in program.results:
    if len(program.results) > 1:
      yield _used(dataclasses.replace(program, results=(result,)))
  if program.updates:
    yield dataclasses.replace(program, updates=())
  if program.backward:
    yield dataclasses.replace(program, backward=False, updates=())
  for place, step in enumerate(program.steps):
    rest = (*program.steps[:place], *program.steps[place + 1:])
    if step.name in step.reads:  # A constraint or an update.
      yield _used(dataclasses.replace(program, steps=rest))
    elif len(step.reads) == 1:  # Its operand may serve as well.
      names = {step.name: step.reads[0]}
      yield _used(
          dataclasses.replace(
              program,
              steps=tuple(_renamed(s, names) for s in rest),
              results=tuple(
                  dict.fromkeys(names.get(r, r) for r in program.results))))
  for place, one in enumerate(program.inputs):
    for changed in _plainer(one):
      inputs = (*program.inputs[:place], changed, *program.inputs[place + 1:])
      yield dataclasses.replace(program, inputs=inputs)
  for place, step in enumerate(program.steps):
    if ' = mark(' in step.text and not step.text.endswith(', None)'):
      plain = dataclasses.replace(
          step, text=_PRIORITY.sub(r', None\1', step.text))
      yield dataclasses.replace(
          program,
          steps=(*program.steps[:place], plain, *program.steps[place + 1:]))


def _plainer(one: Input) -> Iterator[Input]:
  if one.mark:
    yield dataclasses.replace(one, mark='')
    if not one.mark.endswith(', None'):
      yield dataclasses.replace(one, mark=_PRIORITY.sub(', None', one.mark))
  if one.weight and not one.gradient:
    yield dataclasses.replace(one, weight=False)


def _renamed(step: Step, names: Mapping[str, str]) -> Step:
  text = re.sub(r'\bv\d+\b', lambda m: names.get(m.group(), m.group()),
                step.text)
  return Step(text, names.get(step.name, step.name),
              tuple(names.get(r, r) for r in step.reads))


def _used(program: Program) -> Program:
  """Without the steps and inputs that no result needs."""
  needed = set(program.results)
  steps = []
  for step in reversed(program.steps):
    if step.name in needed:
      needed.update(step.reads)
      steps.append(step)
  return dataclasses.replace(
      program,
      steps=tuple(reversed(steps)),
      inputs=tuple(i for i in program.inputs if i.name in needed),
      updates=tuple(u for u in program.updates if u.name in needed))
