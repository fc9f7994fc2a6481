"""Which tensor, and which module, each rule of a policy claims.

Pure: names, shapes and mesh axes in, claims and problems out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import difflib
import enum
from typing import Optional, Union

from torch_xla.shardy.annotate.constraint_words import Propagate
from torch_xla.shardy.annotate.priority import Priority

from .patterns import matches, PolicyError
from .rules import axes_of, Boundary, REPLICATED, Replicated, Rule, Spec, uneven


class PolicyMismatchError(PolicyError):
  """A policy that does not fit the model, or the mesh.

  Attributes:
    problems: all of them, in the order of the model's tensors.
  """

  def __init__(self, problems: Sequence[Problem]):
    lines = '\n'.join(f'  {problem}' for problem in problems)
    super().__init__(f'the sharding policy does not fit the model in '
                     f'{len(problems)} place(s); nothing was marked:\n{lines}')
    self.problems = tuple(problems)


class ProblemKind(enum.Enum):
  """A problem of a policy with a model."""
  UNMATCHED = 'unmatched'
  CLAIMED_TWICE = 'claimed twice'
  WRONG_RANK = 'wrong rank'
  NOT_DIVISIBLE = 'not divisible'
  UNKNOWN_AXIS = 'unknown axis'
  MATCHES_NOTHING = 'matches nothing'
  NOT_ON_XLA = 'not on XLA'
  ALREADY_SHARDED = 'already sharded'


@dataclasses.dataclass(frozen=True)
class Problem:
  """One reason why a policy does not fit.

  Attributes:
    name: of the tensor, module or rule.
    text: what is wrong, and what to do.
  """
  kind: ProblemKind
  name: str
  text: str

  def __str__(self) -> str:
    return f'{self.name or "(the model itself)"}: {self.text}'


@dataclasses.dataclass(frozen=True)
class Claim:
  """The statement of a policy on one tensor.

  Attributes:
    name: the first of its names.
    rule: the pattern that claims it; None if that is the policy's default.
    spec: with an entry for each of its dimensions.
    uneven: whether a dimension may not divide into its tiles.
  """
  name: str
  rule: Optional[str]
  spec: Spec
  priority: Optional[Priority] = None
  uneven: bool = False
  propagate: Optional[Propagate] = None


def claim_tensors(
    rules: Sequence[Rule], default: Optional[Replicated],
    tensors: Iterable[tuple[tuple[str, ...], tuple[int, ...]]],
    axes: Mapping[str, int]) -> tuple[dict[str, Claim], tuple[Problem, ...]]:
  """Finds the one rule of each tensor; no order of the rules decides anything.

  Rules on different names of a tied tensor may claim it together if they say
  the same.

  Args:
    default: for tensors that no rule claims; None makes them a problem.
    tensors: of each all of its names, which are several where weights are tied,
      and its shape.
    axes: the mesh's axes and their sizes.

  Returns:
    The claims that can be carried out, by the tensor's first name, and all
    problems.
  """
  claims: dict[str, Claim] = {}
  problems: list[Problem] = []
  used_rules: set[int] = set()
  for names, shape in tensors:
    claim = _claim(rules, default, names, shape, used_rules)
    misfits = [claim] if isinstance(claim, Problem) else _misfits(
        claim, shape, axes)
    problems += misfits
    if not misfits:
      claims[claim.name] = claim
  problems += [
      Problem(
          ProblemKind.MATCHES_NOTHING, f'rule {rule.pattern!r}',
          'no parameter and no buffer has such a name: mend the pattern, '
          'or take the rule out')
      for i, rule in enumerate(rules)
      if i not in used_rules
  ]
  return claims, tuple(problems)


def claim_modules(
    boundaries: Sequence[Boundary], modules: Sequence[str],
    axes: Mapping[str,
                  int]) -> tuple[list[tuple[str, Boundary]], list[Problem]]:
  """The modules that boundaries name, in the model's order, and all problems.
  """
  pairs: list[tuple[str, Boundary]] = []
  problems: list[Problem] = []
  used_boundaries: set[int] = set()
  for name in modules:
    outputs: dict[Union[int, str, None], Boundary] = {}
    for i, boundary in enumerate(boundaries):
      if not matches(boundary.module, name):
        continue
      used_boundaries.add(i)
      other = outputs.setdefault(boundary.output, boundary)
      if other is boundary:
        pairs.append((name, boundary))
      else:
        problems.append(
            Problem(
                ProblemKind.CLAIMED_TWICE, name,
                f'boundaries {other.module!r} and {boundary.module!r} both '
                'claim the same result: narrow one of them'))
  for i, boundary in enumerate(boundaries):
    subject = f'boundary {boundary.module!r}'
    if i not in used_boundaries:
      problems.append(
          Problem(
              ProblemKind.MATCHES_NOTHING, subject,
              f'no module has such a name{_near(boundary.module, modules)}: '
              'mend the pattern, or take the boundary out'))
    problems += _unknown_axes(subject, boundary.spec, axes)
  return pairs, problems


def _near(pattern: str, names: Sequence[str]) -> str:
  near = difflib.get_close_matches(pattern, names, n=3, cutoff=0.5)
  return f' (near it: {", ".join(map(repr, near))})' if near else ''


def _claim(rules: Sequence[Rule], default: Optional[Replicated],
           names: tuple[str, ...], shape: tuple[int, ...],
           used_rules: set[int]) -> Union[Claim, Problem]:
  name = names[0]
  by_name = [[
      i for i, rule in enumerate(rules) if matches(rule.pattern, alias)
  ] for alias in names]
  claiming = sorted({i for found in by_name for i in found})
  used_rules.update(claiming)
  statements = {dataclasses.replace(rules[i], pattern='**') for i in claiming}
  if len(statements) > 1 or any(len(found) > 1 for found in by_name):
    patterns = ' and '.join(repr(rules[i].pattern) for i in claiming)
    tied = f' (tied: {", ".join(names)})' if len(names) > 1 else ''
    return Problem(ProblemKind.CLAIMED_TWICE, name,
                   f'rules {patterns} both claim it{tied}: narrow one of them')
  whole = (None,) * len(shape)
  if not claiming:
    return Claim(name, None, whole) if default is not None else Problem(
        ProblemKind.UNMATCHED, name,
        f'{list(shape)}: no rule claims it: add one, or set '
        'default=REPLICATED')
  rule = rules[claiming[0]]
  return Claim(name, rule.pattern,
               whole if rule.spec is REPLICATED else rule.spec, rule.priority,
               rule.uneven, rule.propagate)


def _misfits(claim: Claim, shape: tuple[int, ...],
             axes: Mapping[str, int]) -> list[Problem]:
  where = f'of rule {claim.rule!r}'
  if len(claim.spec) != len(shape):
    return [
        Problem(
            ProblemKind.WRONG_RANK, claim.name,
            f'spec {claim.spec} {where} has {len(claim.spec)} entries, the '
            f'tensor is {list(shape)}')
    ]
  if unknown := _unknown_axes(claim.name, claim.spec, axes):
    return unknown
  if claim.uneven:
    return []
  return [
      Problem(
          ProblemKind.NOT_DIVISIBLE, claim.name,
          f'dimension {dim} of {list(shape)} does not divide into '
          f'{tiles}, as spec {claim.spec} {where} asks; uneven=True allows it')
      for dim, tiles in uneven(shape, claim.spec, axes)
  ]


def _unknown_axes(name: str, spec: Spec, axes: Mapping[str,
                                                       int]) -> list[Problem]:
  return [
      Problem(ProblemKind.UNKNOWN_AXIS, name,
              f'the mesh has no axis {axis!r}, it has {list(axes)}')
      for entry in spec
      for axis in axes_of(entry)
      if axis not in axes
  ]
