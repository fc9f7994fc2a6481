"""The common parts of reports' pages: HTML that needs nothing else.

Light and dark, wide and narrow; a script only filters tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
import datetime
from html import escape
import os
import sys
from typing import Optional, Union

# A cell of a table: text, or markup and whether what it shows is no good.
Cell = Union[str, tuple[str, bool]]

_CSS = '''
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5b6570;
  --paper: #fff; --panel: #f5f6f8; --line: #d8dce1; --bad: #b3261e;
  --bad-paper: #fdecea; --good: #1a6b3c; --good-paper: #e6f4ea;
  --tile-light: 84%; --tile-sat: 62%; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ed; --soft: #9aa5b1; --paper: #14171b; --panel: #1d2227;
    --line: #353c44; --bad: #ffb4ab; --bad-paper: #43211f; --good: #8fd8ac;
    --good-paper: #17301f; --tile-light: 27%; --tile-sat: 45%; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1.25rem 4rem; max-width: 90rem;
  background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0; }
h2 { font-size: 1.1rem; margin: 2.25rem 0 .75rem; }
h3 { font-size: .95rem; margin: 0; }
h1 ~ h1 { margin-top: 2.5rem; }
:is(.scroll, .placements, p) + h3 { margin-top: 1rem; }
p { margin: .35rem 0; }
code, .n { font-family: ui-monospace, monospace; font-size: .87em; }
.soft { color: var(--soft); }
.verdict { display: inline-block; margin: .6rem 0; padding: .25rem .7rem;
  border-radius: 1rem; font-weight: 600; }
.ok { color: var(--good); background: var(--good-paper); }
.bad { color: var(--bad); background: var(--bad-paper); }
.figures { display: flex; flex-wrap: wrap; gap: .75rem; padding: 0; margin: 0;
  list-style: none; }
.figures li { background: var(--panel); border-radius: .5rem;
  padding: .6rem .9rem; flex: 1 1 9rem; }
.figures b { display: block; font-size: 1.2rem; }
.differences { padding: 0; margin: 0; list-style: none; }
.differences li { background: var(--bad-paper); border-left: .25rem solid
  var(--bad); padding: .5rem .8rem; margin-bottom: .5rem;
  border-radius: 0 .4rem .4rem 0; }
.differences b { color: var(--bad); }
.placements { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr)); }
.placement { background: var(--panel); border-radius: .5rem; padding: .9rem;
  min-width: 0; }
.placement:target { outline: 2px solid var(--soft); }
.tag { display: inline-block; min-width: 1.6em; text-align: center;
  padding: 0 .35em; border: 1px solid var(--line); border-radius: .3rem;
  color: inherit; text-decoration: none; background: var(--paper);
  font: .85em ui-monospace, monospace; }
a.tag:hover { border-color: var(--ink); }
.words { background: var(--bad-paper); border-left: .25rem solid var(--bad);
  padding: .5rem .8rem; border-radius: 0 .4rem .4rem 0; font-size: .87rem;
  white-space: pre-wrap; overflow-x: auto; }
.scroll { overflow-x: auto; }
.grid { display: grid; gap: 2px; margin: .6rem 0; min-width: max-content; }
.tile { padding: .3rem .4rem; text-align: center; border-radius: .2rem;
  font: .8rem/1.35 ui-monospace, monospace; min-width: 2rem; max-width: 18rem;
  background: hsl(var(--hue) var(--tile-sat) var(--tile-light)); }
.whole { background: var(--line); }
table { border-collapse: collapse; width: 100%; font-size: .87rem; }
th { text-align: left; color: var(--soft); font-weight: 600; }
th, td { padding: .35rem .6rem .35rem 0; vertical-align: top;
  border-bottom: 1px solid var(--line); }
td.num, th.num { text-align: right; padding-right: 1rem; }
td, th { overflow-wrap: normal; }
td.head { overflow-wrap: break-word; }
td.differs .tag { border-color: var(--bad); }
td.plain, td.num { white-space: nowrap; }
[hidden] { display: none !important; }
td.differs { color: var(--bad); font-weight: 600; }
@media (max-width: 72rem) {
  table, tbody, tr, td { display: block; width: 100%; }
  thead { display: none; }
  tr { background: var(--panel); border-radius: .5rem; padding: .6rem .8rem;
    margin-bottom: .6rem; }
  td, td.num { border: 0; padding: .1rem 0; text-align: left; display: flex;
    gap: .6rem; white-space: normal; overflow-wrap: anywhere; }
  td::before { content: attr(data-label); color: var(--soft);
    flex: 0 0 7.5rem; }
  td.head { font-weight: 600; }
  td.head::before { content: none; }
  td > span { min-width: 0; } }
'''

# Script of the field before a table: rows without its text are hidden.
_FILTER = ("for(const row of this.closest('p').nextElementSibling."
           "querySelectorAll('tbody tr'))row.hidden=!row.textContent."
           "toLowerCase().includes(this.value.toLowerCase())")


def document(title: str, body: Iterable[str], facts: Sequence[str] = ()) -> str:
  """A whole page in HTML.

  Args:
    title: of the window, as text; of the page, too, where there are facts.
    body: as markup.
    facts: what it is of, before the date.
  """
  today = datetime.date.today().isoformat()
  head = facts and (f'<h1>{escape(title)}</h1><p class="soft">'
                    f'{escape(" · ".join((*facts, today)))}</p>\n')
  return (
      '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
      '<meta name="viewport" content="width=device-width, '
      'initial-scale=1"><link rel="icon" href="data:,">'
      f'<title>{escape(title)}</title><style>{_CSS}</style></head>\n<body>\n'
      f'{head or ""}' + '\n'.join(body) + '\n</body></html>\n')


def script() -> str:
  """The script that this process runs, and its arguments."""
  return ' '.join((os.path.basename(sys.argv[0]), *sys.argv[1:]))


def verdict(text: str, ok: Optional[bool]) -> str:
  """The markup of the one line that says how it stands; None: not known."""
  kind = {True: 'ok', False: 'bad', None: 'soft'}[ok]
  return f'<p class="verdict {kind}">{escape(text)}</p>'


def figures(values: Iterable[tuple[str, str]]) -> str:
  """The markup of (value, what it is)."""
  items = ''.join(f'<li><b>{escape(value)}</b><span class="soft">'
                  f'{escape(label)}</span></li>' for value, label in values)
  return f'<ul class="figures">{items}</ul>'


def _marked(cell: Cell) -> tuple[str, bool]:
  return (escape(cell), False) if isinstance(cell, str) else cell


def table(columns: Sequence[tuple[str, str]],
          rows: Iterable[Iterable[Cell]],
          filtered: str = '') -> str:
  """The markup of a table; on a narrow screen each row is a box.

  Args:
    columns: (label, class) of each.
    rows: of cells.
    filtered: what the rows are, if a field is to filter them by their text.
  """
  heads = ''.join(
      f'<th class="{kind}">{escape(label)}</th>' for label, kind in columns)
  body = '\n'.join('<tr>' + ''.join(
      f'<td class="{kind}{" differs" if bad else ""}" '
      f'data-label="{escape(label)}"><span>{markup}</span></td>'
      for (label, kind), (markup, bad) in zip(columns, map(_marked, row))) +
                   '</tr>'
                   for row in rows)
  field = '' if not filtered else (
      f'<p><label class="soft">show {escape(filtered)} with '
      f'<input type="search" oninput="{_FILTER}"></label></p>')
  return (f'{field}<div class="scroll"><table><thead><tr>{heads}</tr></thead>'
          f'<tbody>\n{body}</tbody></table></div>')
