"""The result of a search, for people and for a policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional

from . import text
from ..annotate.priority import Priority
from ..compile.record import columns
from ..layers import folded, group_of
from .propagation import Origin
from .search import is_named, Program, Tried

# Priorities by group and dimension; None: said without a priority.
Priorities = Mapping[str, Mapping[int, Optional[int]]]

_TOLERANCE = 1e-3


class Row(NamedTuple):
  """Priorities, under a name, and what Shardy plans to move with them.

  Attributes:
    nbytes: None of another script, which is compiled alone.
  """
  name: str
  nbytes: Optional[int]
  priorities: Priorities


def by_group(tried: Tried) -> Priorities:
  made: dict[str, dict[int, Optional[int]]] = {}
  for (group, dim), level in tried.priorities:
    made.setdefault(group, {})[dim] = level
  return made


def none_of(programs: Sequence[Program]) -> Priorities:
  """The setting with no priority for anything that has a name."""
  return {
      group_of(origin.name): dict.fromkeys(range(len(origin.dims)))
      for origin in _named(programs)
  }


def has_priorities(programs: Sequence[Program]) -> bool:
  """Tests whether the script gives priorities to anything that has a name."""
  return any(map(_own, _named(programs)))


def table(rows: Sequence[Row], ran: Sequence[Optional[dict[str,
                                                           Any]]]) -> list[str]:
  """Each row with what the compiled programs move, and how values differ.

  Of programs compiled ahead of time, what the TPU's compiler says instead.
  """
  is_ahead = has_cycles(ran)
  lines = [('priorities', 'planned, bytes', 'compiled, bytes', 'collectives',
            'compiled in', *(('cycles', 'memory') if is_ahead else
                             ('largest difference',)))]
  for row, outcome in zip(rows, ran, strict=True):
    planned = '-' if row.nbytes is None else f'{row.nbytes:,}'
    if outcome is None:
      lines.append((row.name, planned, 'failed', *'-' * (3 + is_ahead)))
      continue
    last = (f'{outcome["cycles"]:,}', outcome['memory']) if is_ahead else (
        f'{difference(ran[0], outcome):.1e}'
        if outcome['values'] else 'nothing to compare',)
    lines.append((row.name, planned, f'{outcome["nbytes"]:,}',
                  str(outcome['count']), f'{outcome["seconds"]:.1f} s', *last))
  return columns(lines)


def has_cycles(ran: Sequence[Optional[dict[str, Any]]]) -> bool:
  """Tests whether these were compiled ahead of time, for a TPU."""
  return any('cycles' in outcome for outcome in ran if outcome)


def difference(one: Optional[dict[str, Any]], other: dict[str, Any]) -> float:
  """The largest between the named values of two runs, relative."""
  values = one['values'] if one else {}
  return max((abs(v - values[name]) / max(abs(values[name]), 1e-12)
              for name, v in other['values'].items()
              if name in values),
             default=0.0)


def chosen(rows: Sequence[Row],
           ran: Sequence[Optional[dict[str, Any]]],
           tolerance: float = _TOLERANCE) -> Optional[Row]:
  """The row that moves least when compiled, if it is not the first.

  Ahead of time it is the one with the fewest cycles, as the compiler estimates.
  Another script is not chosen: its priorities are not known.
  """
  best = [
      (made.get('cycles', 0), made['nbytes'], number)
      for number, (row, made) in enumerate(zip(rows, ran, strict=True))
      if row.nbytes is not None and made is not None and
      made.get('fits') is not False and difference(ran[0], made) <= tolerance
  ]
  return rows[min(best)[-1]] if best and min(best)[-1] else None


def lines(programs: Sequence[Program],
          row: Row,
          goal: str = 'least is moved') -> Iterator[str]:
  """The lines of a script to change."""
  yield f'{goal} with {row.name.rstrip(".")}:'
  groups = set()
  for origin in _named(programs):
    group = group_of(origin.name)
    after = _priority(origin, row.priorities)
    if group not in groups and after != _own(origin):
      groups.add(group)
      yield (f'  {group}: xs.mark_sharding(..., {text.spec_text(origin)}, '
             f'priority={after})')


def policy(programs: Sequence[Program], row: Row,
           module_tensors: frozenset[str]) -> str:
  """The annotations of named arguments as a policy in TOML.

  Args:
    module_tensors: what modules hold, which a policy is for; empty: unknown.
  """
  from torch_xla.distributed.spmd.policy import toml
  from torch_xla.distributed.spmd.policy.rules import REPLICATED, Rule
  claims: dict[str,
               Optional[tuple[Any,
                              ...]]] = dict.fromkeys(sorted(module_tensors))
  for origin in _named(programs):
    if not module_tensors or origin.name in module_tensors:
      claims[origin.name] = (tuple(d.axes for d in origin.dims),
                             _priority(origin, row.priorities))
  return toml.dump([
      Rule(pattern, *what)
      for pattern, what in folded(claims).items()
      if what is not None
  ], (), REPLICATED)


def _named(programs: Sequence[Program]) -> Iterator[Origin]:
  """The annotated arguments that have names, each once."""
  names = set()
  for _, found in programs:
    for origin in found.origins.values():
      if is_named(origin) and origin.name not in names and any(
          dim.axes for dim in origin.dims):
        names.add(origin.name)
        yield origin


def _own(origin: Origin) -> Optional[Priority]:
  priority = tuple(dim.priority for dim in origin.dims)
  return None if priority == (None,) * len(priority) else priority


def _priority(origin: Origin, priorities: Priorities) -> Optional[Priority]:
  changed = priorities.get(group_of(origin.name), {})
  priority = tuple(changed[n] if dim.axes and changed.get(n) != (
      dim.priority or 0) and n in changed else dim.priority
                   for n, dim in enumerate(origin.dims))
  return None if priority == (None,) * len(priority) else priority
