"""Two explanations side by side, as `as_json` has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

_MOST = 10


def lines(before: Sequence[dict[str, Any]],
          after: Sequence[dict[str, Any]]) -> Iterator[str]:
  """Changes of tensors, conflicts and collectives, program by program.

  Programs are taken in the order in which they were compiled, and tensors by
  their names and shapes: of operations these count, so that a program with
  others of them has other names behind the first that differs.
  """
  if len(before) != len(after):
    yield f'programs: {len(before)} -> {len(after)}'
  for one, other in zip(before, after, strict=False):
    changes = list(_changes(one, other))
    yield f'{other["name"]}: ' + ('no difference' if not changes else
                                  f'{len(changes)} differences')
    yield from (f'  {line}' for line in changes[:_MOST])
    if len(changes) > _MOST:
      yield f'  and {len(changes) - _MOST} more'


def _changes(earlier: dict[str, Any], later: dict[str, Any]) -> Iterator[str]:
  kinds = [{
      c['kind']: c for c in side['collectives']
  } for side in (earlier, later)]
  for kind in sorted(kinds[0].keys() | kinds[1].keys()):
    count, then = (_moved(side.get(kind)) for side in kinds)
    if count != then:
      yield f'{kind}: {count} -> {then}'
  conflicts = [{(c['loser'], c['winner'], c['axis'])
                for c in side['conflicts']}
               for side in (earlier, later)]
  for loser, winner, axis in sorted(conflicts[0] - conflicts[1]):
    yield f'no longer in conflict: {axis!r} of {loser} against {winner}'
  for loser, winner, axis in sorted(conflicts[1] - conflicts[0]):
    yield f'in conflict now: {axis!r} of {loser} against {winner}'
  specs = [{
      (t['name'], t['shape']): t for t in side['tensors']
  } for side in (earlier, later)]
  for key, tensor in specs[1].items():
    was = specs[0].get(key)
    if was is None:
      yield f'{" ".join(key)} is new'
    elif was['spec'] != tensor['spec']:
      yield f'{" ".join(key)} {_spec(was)} -> {_spec(tensor)}'
  for key in specs[0]:
    if key not in specs[1]:
      yield f'{" ".join(key)} is gone'


def _moved(found: Any) -> str:
  return f'{found["count"]} ({found["nbytes"]:,} bytes)' if found else '0'


def _spec(tensor: dict[str, Any]) -> str:
  return f'[{", ".join("+".join(axes) or "-" for axes in tensor["spec"])}]'
