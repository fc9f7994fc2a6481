"""The rules and boundaries that a sharding policy consists of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import dataclasses
import enum
import math
from typing import Any, Optional, Union

from torch_xla.shardy.annotate.constraint_words import (check_propagate,
                                                        Propagate,
                                                        PropagateError)
from torch_xla.shardy.annotate.priority import (check_priority, Priority,
                                                PriorityError)
from torch_xla.shardy.sharding.partition_spec import uneven_dims

from .patterns import compile_pattern, PatternError, RuleError


class Replicated(enum.Enum):
  """The type of `REPLICATED`."""
  REPLICATED = 'replicated'

  def __repr__(self) -> str:
    return self.name


# A rule's spec for tensors of any rank that every device is to hold whole.
REPLICATED = Replicated.REPLICATED

# Mesh axes by name; several from major to minor; None: not split.
SpecEntry = Union[str, tuple[str, ...], None]
Spec = tuple[SpecEntry, ...]


@dataclasses.dataclass(frozen=True)
class Rule:
  """How the parameters and buffers that `pattern` matches are sharded.

  Attributes:
    pattern: a glob over the whole dotted name; see `patterns`.
    spec: REPLICATED, or for each dimension a mesh axis by name, a tuple of
      axes from major to minor, or None.
    priority: for each dimension of `spec`, as `xs.mark_sharding` takes it.
    uneven: whether a dimension may have a size that its mesh axes do not
      divide. The last shards of it are then smaller, or empty.
    propagate: for each dimension, or for all, as `xs.mark_sharding` takes it.

  Raises:
    RuleError: malformed. A wrong priority is a PriorityError, a wrong
      `propagate` a PropagateError.
  """
  pattern: str
  spec: Union[Spec, Replicated]
  priority: Optional[Priority] = None
  uneven: bool = False
  propagate: Optional[Propagate] = None

  def __post_init__(self):
    compile_pattern(self.pattern)
    if self.pattern == '':
      raise PatternError('a rule needs a pattern; "**" matches every name')
    if not isinstance(self.uneven, bool):
      raise RuleError(f'rule {self.pattern!r}: uneven={self.uneven!r} is '
                      'neither True nor False')
    if self.uneven and self.spec is REPLICATED:
      raise RuleError(f'rule {self.pattern!r}: REPLICATED splits nothing, so '
                      'nothing can be uneven: leave uneven out')
    _set_spec(self, f'rule {self.pattern!r}')


@dataclasses.dataclass(frozen=True)
class Boundary:
  """How an activation that leaves a module is sharded, and its gradient.

  Attributes:
    module: a glob over module names, as for rules; '' is the model itself.
    spec: for each dimension of the activation, as for rules.
    priority: likewise.
    output: which result, where the module returns a tuple or a list, or its
      name, where that is a dictionary, as transformers' ModelOutput is; None
      where it returns one tensor.
    propagate: as for rules; the gradient's, too.

  Raises:
    RuleError: malformed, and the others as for rules.
  """
  module: str
  spec: Spec
  priority: Optional[Priority] = None
  output: Union[int, str, None] = None
  propagate: Optional[Propagate] = None

  def __post_init__(self):
    subject = f'boundary {self.module!r}'
    compile_pattern(self.module)
    if self.spec is REPLICATED:
      raise RuleError(f'{subject}: write the spec out, as in (None, None): the '
                      'rank of an activation is not known before it is made')
    _set_spec(self, subject)
    if self.output is not None and (isinstance(self.output, bool) or
                                    not isinstance(self.output, (int, str))):
      raise RuleError(
          f'{subject}: output={self.output!r} is neither the index nor '
          'the name of a result')


def axes_of(entry: SpecEntry) -> tuple[str, ...]:
  """The mesh axes of one dimension."""
  return () if entry is None else (entry,) if isinstance(entry, str) else entry


def uneven(shape: Sequence[int], spec: Spec,
           axes: Mapping[str, int]) -> list[tuple[int, int]]:
  """The dimensions that do not divide into their tiles: (dimension, tiles)."""
  tiles = [math.prod(axes[axis] for axis in axes_of(entry)) for entry in spec]
  return uneven_dims(shape, tiles)


def _set_spec(rule: Any, subject: str) -> None:
  """Checks subject a frozen instance says, and writes it plainly."""
  spec = rule.spec
  if spec is REPLICATED:
    for word in ('priority', 'propagate'):
      if getattr(rule, word) is not None:
        raise RuleError(
            f'{subject}: REPLICATED takes no {word}; write the spec '
            'out, as in (None, None), to give each dimension one')
    return
  if not isinstance(spec, (tuple, list)):
    raise RuleError(
        f'{subject}: spec={spec!r} is neither REPLICATED nor a tuple '
        'with an entry per dimension')
  entries: list[SpecEntry] = []
  for entry in spec:
    names = entry if isinstance(entry, (tuple, list)) else (entry,)
    if entry is not None and not all(isinstance(n, str) and n for n in names):
      raise RuleError(
          f'{subject}: {entry!r} in spec={spec!r} is no axis name, no '
          'tuple of axis names and not None')
    if entry is None or not names:
      entries.append(None)
    else:
      entries.append(names[0] if len(names) == 1 else tuple(names))
  axes = [axis for entry in entries for axis in axes_of(entry)]
  if len(set(axes)) != len(axes):
    raise RuleError(f'{subject}: spec={spec!r} names a mesh axis twice')
  object.__setattr__(rule, 'spec', tuple(entries))
  try:
    priority = check_priority(rule.priority, len(entries))
    propagate = check_propagate(rule.propagate, entries, priority)
  except (PriorityError, PropagateError) as e:
    raise type(e)(f'{subject}: {e}') from None
  object.__setattr__(rule, 'priority', priority)
  object.__setattr__(rule, 'propagate', propagate)
