"""Draws the way of a program through the layers, from the table of layers.

`python test/program_picture.py` writes docs/pictures/program.svg. It lies here
and not in infra/, as what it draws is the suite's: a layer that is in the table
and has no place in the drawing, or the reverse, is an error, and so is a step
between two layers neither of which may import the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
import dataclasses
from pathlib import Path
import textwrap
from xml.sax.saxutils import escape

from layer_table import MAY_IMPORT

PICTURE = Path(__file__).parents[1] / 'docs/pictures/program.svg'

Table = Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]


class PictureError(Exception):
  """The drawing and the table of layers do not agree."""


@dataclasses.dataclass(frozen=True)
class Box:
  """A layer on the way, and where it stands; pixels, from the upper left."""
  layer: str
  says: str
  x: int
  y: int
  width: int
  height: int = 48

  @property
  def middle(self) -> int:
    return self.x + self.width // 2

  @property
  def bottom(self) -> int:
    return self.y + self.height


_WIDTH, _HEIGHT = 880, 724
_LEFT, _WIDE = 56, 526
_RIGHT = _LEFT + _WIDE
_BASE = 508
_BOXES = (
    Box('annotate', 'what a user said of a tensor', _LEFT, 76, _WIDE),
    Box('bind', 'which tensor it was said of, in each graph', _LEFT, 152,
        _WIDE),
    Box('door', "before the backend's plugin: a chain of compilers", _LEFT, 256,
        _WIDE),
    Box('compile', 'one program: a plan, its attempts, one record', _LEFT, 332,
        _WIDE),
    Box('sdy', 'what Shardy is told', _LEFT, 420, 124),
    Box('rewrite', 'HLO made so', 190, 420, 124),
    Box('stablehlo', "a plugin's format", 324, 420, 124),
    Box('v2', 'V1 to V2 and back', 458, 420, 124),
    Box('sharding', 'what a sharding is', _LEFT, _BASE, 258),
    Box('hlo', "the parts of XLA's messages", 324, _BASE, 258),
)
# Of a program, from layer to layer; `_XLAC` stands between the two parts.
_STEPS = (('annotate', 'bind'), ('door', 'compile'), ('compile', 'sdy'),
          ('compile', 'rewrite'), ('compile', 'stablehlo'), ('compile', 'v2'))
# What stands beside: what it does, and the layers.
_BESIDE = (
    ('turns it on', ('shardy', 'switch', 'device_count', 'mode',
                     'vendor_defaults')),
    ('stands at the door', ('cache', 'doctor', 'watching')),
    ('says and checks', ('policy', 'audit', 'metrics', 'guards')),
    ('tells why', ('explanation', 'explained_script', 'suggested_priorities',
                   'exported_script', 'preview')),
    ('whole tools', ('aot', 'torch_xla_conformance', '__main__')),
)
_BELOW = ('serves them all',
          ('errors', 'warn_once', 'callers', 'progress', 'layers',
           'late_module', 'tensor_refs', 'tensor_names', 'process_environment',
           'web_page', 'ended_process', 'gate', 'torch_xla_shardy'))

_STYLE = '''
svg { font-family: system-ui, "Segoe UI", "DejaVu Sans", sans-serif }
.paper { fill: #fdfdfc } .ink { fill: #1c2024 } .soft { fill: #5b6470 }
.name { font: 600 14px ui-monospace, Menlo, "DejaVu Sans Mono", monospace }
.chip { font: 12px ui-monospace, Menlo, "DejaVu Sans Mono", monospace }
.says, .note { font-size: 12px } .head { font-size: 13px; font-weight: 600 }
.box { fill: #e8f0fb; stroke: #3568b8; stroke-width: 1.3 }
.base { fill: #eef1f4; stroke: #7b8794; stroke-width: 1.3 }
.small { fill: #f2f4f6; stroke: #c3cad2 }
.outside { fill: none; stroke: #7b8794; stroke-dasharray: 4 3 }
.step { fill: none; stroke: #3568b8; stroke-width: 2.6 }
.import { fill: none; stroke: #97660c; stroke-width: 1.2 }
.step-head { fill: #3568b8 } .import-head { fill: #97660c }
@media (prefers-color-scheme: dark) {
.paper { fill: #15181c } .ink { fill: #e6e9ec } .soft { fill: #a3adb8 }
.box { fill: #1d2c44; stroke: #7aa7ee } .base { fill: #23282e; stroke: #8793a0 }
.small { fill: #20252a; stroke: #464f59 } .outside { stroke: #8793a0 }
.step { stroke: #7aa7ee } .step-head { fill: #7aa7ee }
.import { stroke: #d9a441 } .import-head { fill: #d9a441 }
}
'''


def reduced(table: Table, layers: Iterable[str]) -> set[tuple[str, str]]:
  """Who imports whom of `layers`, without what is reached over another one."""
  kept = set(layers)
  direct = {a: set(table[a][0]) & kept for a in kept}

  def reached(layer: str) -> set[str]:
    return set().union(*({b} | reached(b) for b in direct[layer]))

  return {(a, b)
          for a in kept
          for b in direct[a]
          if not any(b in reached(c) for c in direct[a] - {b})}


def check(table: Table) -> None:
  """Holds the drawing to the table of layers.

  Raises:
    PictureError: a layer has no place here or is not in the table, or a step
      joins two that may not import each other.
  """
  drawn = [b.layer for b in _BOXES
          ] + [name for _, names in (*_BESIDE, _BELOW) for name in names]
  if missing := [name for name in table if name not in drawn]:
    raise PictureError(
        f'layers without a place in the picture: {", ".join(missing)}; give '
        'each one in _BOXES, _BESIDE or _BELOW of test/program_picture.py')
  if gone := [name for name in drawn if name not in table]:
    raise PictureError(
        f'drawn, and not in test/layer_table.py: {", ".join(gone)}')
  for a, b in _STEPS:
    if b not in table[a][0] + table[a][1] and a not in table[b][0] + table[b][1]:
      raise PictureError(f'a step from {a} to {b} is drawn, and the table lets '
                         'neither import the other')


def _text(x: int, y: int, said: str, style: str, anchor: str = '') -> str:
  placed = f' text-anchor="{anchor}"' if anchor else ''
  return f'<text x="{x}" y="{y}" class="{style}"{placed}>{escape(said)}</text>'


def _line(points: Iterable[tuple[int, int]], kind: str) -> str:
  path = 'M' + 'L'.join(f'{x} {y}' for x, y in points)
  return f'<path d="{path}" class="{kind}" marker-end="url(#{kind}-head)"/>'


def _rect(x: int, y: int, width: int, height: int, style: str,
          radius: int) -> str:
  return (f'<rect x="{x}" y="{y}" width="{width}" height="{height}" '
          f'rx="{radius}" class="{style}"/>')


def _boxes(table: Table) -> Iterator[str]:
  for box in _BOXES:
    # The lowest ones carry no step: they are what the others read and write.
    style = 'base' if box.y == _BASE else 'box'
    yield _rect(box.x, box.y, box.width, box.height, style, 7)
    imports = ', '.join(table[box.layer][0]) or 'nothing'
    yield f'<title>{box.layer} imports {imports}</title>'
    if box.width > 300:
      yield _text(box.x + 16, box.y + 29, box.layer, 'name ink')
      yield _text(box.x + 106, box.y + 29, box.says, 'says ink')
    else:
      yield _text(box.middle, box.y + 20, box.layer, 'name ink', 'middle')
      yield _text(box.middle, box.y + 38, box.says, 'says ink', 'middle')


def _steps() -> Iterator[str]:
  box = {b.layer: b for b in _BOXES}
  middle = box['annotate'].middle
  yield _rect(_LEFT, 18, _WIDE, 32, 'outside', 16)
  yield _text(middle, 39, 'xs.mark_sharding(t, mesh, spec, priority)',
              'chip ink', 'middle')
  yield _line([(middle, 50), (middle, box['annotate'].y - 2)], 'step')
  yield _line([(middle, box['bind'].bottom), (middle, box['door'].y - 2)],
              'step')
  yield _text(middle + 12, 232, '_XLAC traces, and calls PJRT_Client_Compile',
              'note soft')
  for start, end in _STEPS:
    a, b = box[start], box[end]
    yield _line([(b.middle, a.bottom), (b.middle, b.y - 2)], 'step')
  yield _rect(_LEFT, 580, _WIDE, 32, 'outside', 16)
  yield _text(middle, 601,
              "the backend's plugin: libtpu, XLA's CPU plugin, a vendor's",
              'says ink', 'middle')
  side = _RIGHT + 22
  yield _line([(_RIGHT, 356), (side, 356), (side, 596), (_RIGHT + 2, 596)],
              'step')


def _imports(table: Table) -> Iterator[str]:
  """Thin lines, beside the steps."""
  box = {b.layer: b for b in _BOXES}
  gutter = 16
  for start, end in sorted(
      reduced(table, box), key=lambda e: [list(table).index(x) for x in e]):
    a, b = box[start], box[end]
    if a.y == b.y:  # In one row.
      y = a.y + 24
      ends = (a.x, b.x + b.width + 2) if a.x > b.x else (a.x + a.width, b.x - 2)
      yield _line([(ends[0], y), (ends[1], y)], 'import')
    elif abs(a.y - b.y) < 130:
      x = (a if a.width < b.width else b).middle + 30
      yield _line([(x, a.bottom),
                   (x, b.y - 2)] if a.y < b.y else [(x, a.y),
                                                    (x, b.bottom + 2)],
                  'import')
    else:  # Past others: along the left.
      yield _line([(a.x, a.y + 18), (gutter, a.y + 18), (gutter, b.y + 30),
                   (b.x - 2, b.y + 30)], 'import')
      gutter += 16


def _chips(table: Table, names: Iterable[str], x: int, y: int,
           right: int) -> tuple[list[str], int]:
  """Layers in a row or several, and where the last row begins."""
  parts, left = [], x
  for name in sorted(names, key=list(table).index):
    width = round(7.3 * len(name)) + 14
    if left + width > right:
      left, y = x, y + 27
    parts.append(_rect(left, y, width, 22, 'small', 11))
    parts.append(_text(left + width // 2, y + 15, name, 'chip ink', 'middle'))
    left += width + 6
  return parts, y


def _beside(table: Table) -> Iterator[str]:
  x, y = 636, 34
  for says, names in _BESIDE:
    yield _text(x, y, says, 'head ink')
    parts, y = _chips(table, names, x, y + 10, _WIDTH - 12)
    yield from parts
    y += 38
    used = [
        b.layer for b in _BOXES if any(b.layer in table[n][0] for n in names)
    ]
    for line in textwrap.wrap('imports ' + ', '.join(used), 36) if used else []:
      yield _text(x, y, line, 'note soft')
      y += 16
    y += 18
  says, names = _BELOW
  yield _text(_LEFT, 645, says, 'head ink')
  yield from _chips(table, names, _LEFT + 130, 630, _WIDTH - 12)[0]


def _legend() -> Iterator[str]:
  for x, kind, says in ((_LEFT, 'step', 'the way of a program'),
                        (_LEFT + 210, 'import', 'imports; left out where '
                         'another import implies it')):
    yield _line([(x, 702), (x + 30, 702)], kind)
    yield _text(x + 40, 706, says, 'note soft')


def drawn(table: Table) -> str:
  """The picture, an SVG for both light and dark pages.

  Raises:
    PictureError: it and the table do not agree.
  """
  check(table)
  heads = ''.join(
      f'<marker id="{kind}-head" viewBox="0 0 8 8" refX="7" refY="4" '
      f'markerWidth="{size}" markerHeight="{size}" markerUnits="userSpaceOnUse" '
      f'orient="auto"><path d="M0 0L8 4L0 8z" class="{kind}-head"/></marker>'
      for kind, size in (('step', 11), ('import', 8)))
  parts = [
      f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
      f'width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="The way of a '
      'program through the layers of torch_xla.shardy">',
      f'<style>{_STYLE}</style><defs>{heads}</defs>',
      _rect(0, 0, _WIDTH, _HEIGHT, 'paper', 10), *_boxes(table), *_steps(),
      *_imports(table), *_beside(table), *_legend(), '</svg>'
  ]
  return '\n'.join(parts) + '\n'


if __name__ == '__main__':
  PICTURE.write_text(drawn(MAY_IMPORT), encoding='utf-8')
