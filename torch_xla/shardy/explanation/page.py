"""Explanations as one page: conflicts that open, and colours for axes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from . import Explanation, text
from ..compile.record import collectives
from ..layers import group_of
from ..web_page import document, figures, script, table
from .conflicts import Conflict, Refusal
from .propagation import Dim, Origin, Propagation, whole_axis

_TENSORS = (('tensor', 'head'), ('shape', 'plain'), ('split by', 'plain'),
            ('priority', 'plain'), ('won', 'num'), ('lost', 'num'))
_WHOLE = 1 << 20


def html(explained: Sequence[Explanation]) -> str:
  """The whole page of some explanations; what several say stands once."""
  shown: set[str] = set()
  return document('Why it is sharded so',
                  (part for one in explained for part in _program(one, shown)),
                  (script(), 'mode shardy'))


def _program(explanation: Explanation, shown: set[str]) -> Iterator[str]:
  propagation = explanation.propagation
  yield f'<h2>{escape(explanation.name)}</h2>'
  mesh = ', '.join(f'{axis}={size}' for axis, size in propagation.mesh.items())
  yield figures(
      ((str(sum(bool(o.rule) for o in propagation.operations)),
        f'operations over {mesh}'), (str(len(explanation.conflicts)),
                                     'conflicts, layers that are alike as one'),
       (f'{sum(m.nbytes for m in propagation.moves):,}',
        'bytes moved, as Shardy plans it'),
       ('-' if explanation.compiled is None else
        f'{sum(c.nbytes for c in explanation.compiled):,}',
        'bytes moved, in the compiled program')))
  yield f'<p>Planned: {escape(collectives(propagation.collectives()))}</p>'
  if explanation.compiled is not None:
    yield f'<p>Compiled: {escape(collectives(explanation.compiled))}</p>'
  for line in (*explanation.notes(), *text.timeline(propagation)):
    yield f'<p>{escape(line)}</p>'
  conflicts = explanation.new_conflicts(shown)
  yield f'<h3>Conflicts</h3>{_left(explanation.conflicts, conflicts)}'
  yield '<div class="placements" style="grid-template-columns: 1fr">' + (
      ''.join(_conflict(explanation, c) for c in conflicts) or
      ('' if explanation.conflicts else 'none')) + '</div>'
  annotations = list(_annotations(explanation))
  rows = [row for row in annotations if str(row) not in shown]
  shown.update(map(str, rows))
  yield f'<h3>Tensors that are marked, or stored split</h3>{_left(annotations, rows)}'
  if rows:
    yield table(_TENSORS, rows)
  whole = list(text.whole_lines(propagation, _WHOLE))
  if whole:
    yield f'<h3>Computed tensors of {_WHOLE:,} bytes or more that are whole</h3>'
    yield '<ul>' + ''.join(
        f'<li>{escape(line)}</li>' for line in whole) + '</ul>'


def _left(parts: Sequence[object], new: Sequence[object]) -> str:
  """How many parts a program before has, too."""
  left = len(parts) - len(new)
  return f'<p class="soft">{text.as_above(left)}</p>' if left else ''


def _conflict(explanation: Explanation, conflict: Conflict) -> str:
  propagation = explanation.propagation
  first, *rest = text.conflict_lines(propagation, conflict)
  rest.append(explanation.turned_text(conflict))
  place = conflict.places[0]
  return (
      f'<details class="placement"><summary><b>{escape(first)}</b></summary>' +
      ''.join(f'<p>{escape(line.strip())}</p>' for line in rest) +
      _ways(propagation, place) + '</details>')


def _ways(propagation: Propagation, place: Refusal) -> str:
  """How the refused axis came to the place, and how what has its place did."""
  ends = [(place.source, place.axis)]
  if place.winning_axis in propagation.tensors[place.target].axes:
    ends.append((place.target, place.winning_axis))
  return ''.join(f'<p>{_chip(propagation, axis)} ' + ' &rarr; '.join(
      f'<span class="tag">{escape(propagation.tensors[n].name)}</span>'
      for n in propagation.path(number, axis)) + '</p>'
                 for number, axis in ends)


def _annotations(
    explanation: Explanation) -> Iterator[Iterable[tuple[str, bool]]]:
  propagation = explanation.propagation
  groups: dict[tuple[str, str, str], list[tuple[str, Origin]]] = {}
  for key, origin in propagation.origins.items():
    if any(dim.axes for dim in origin.dims):
      same = (group_of(origin.name), str(origin.shape), str(origin.dims))
      groups.setdefault(same, []).append((key, origin))
  for (group, shape, _), alike in groups.items():
    keys = {key for key, _ in alike}
    origin = alike[0][1]
    count = f' ({len(alike)} alike)' if len(alike) > 1 else ''
    won = sum(conflict.winner in keys for conflict in explanation.conflicts)
    lost = sum(conflict.loser in keys for conflict in explanation.conflicts)
    said = ', '.join(
        '-' if d.priority is None else str(d.priority) for d in origin.dims)
    yield ((escape((group if count else origin.name) + count), False),
           (escape(shape), False), (_chips(propagation, origin.dims), False),
           (said, False), (str(won), False), (str(lost), lost > 0))


def _chips(found: Propagation, dims: Iterable[Dim]) -> str:
  return ' '.join(''.join(_chip(found, axis)
                          for axis in dim.axes) or '<span class="tag">-</span>'
                  for dim in dims)


def _chip(found: Propagation, axis: str) -> str:
  hue = list(found.mesh).index(whole_axis(axis)) * 360 // len(found.mesh)
  return f'<span class="tile" style="--hue:{hue}">{escape(axis)}</span>'
