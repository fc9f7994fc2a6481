"""Golden files: what is kept, what counts, and what is said of changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from torch_xla.shardy.gate import golden
from torch_xla.shardy.gate.golden import Golden, GoldenFileError
from torch_xla.shardy.gate.requirements import Tolerance


def of(made_by: str = '', **sections) -> Golden:
  return Golden('audit',
                {name: sections.get(name, {}) for name in golden.SECTIONS},
                made_by)


WAS = of(
    placements={'w': {'marked': 'a', 'stored': 'a', 'shape': '[2]'}},
    programs={'p #1': {'partitions': 8}},
    collectives={'p #1': {'all-gather count': 2}},
    memory={'all': {'peak': 2048}},
    counts={'counts': {'compiles': 1}})  # yapf: disable


def said(now: Golden, was: Golden = WAS, tolerance=Tolerance) -> list[str]:
  return [f'{c.section}: {c}' for c in golden.changes(was, now, tolerance)]


def test_programs_are_named_without_numbers_of_instructions() -> None:
  assert golden.numbered(['G.119', 'G.7',
                          'jit_f']) == ['G #1', 'G #2', 'jit_f #1']
  assert golden.steady('%dot.12 of h.0.w, then add.3.') == (
      '%dot of h.0.w, then add.')


def test_subjects_that_changed_alike_are_told_together() -> None:
  found = [
      golden.Change('placements', f'h.{i}.w', 'it is gone') for i in range(3)
  ]
  other = golden.Change('memory', 'h.0.w', 'it is gone')
  assert [str(c) for c in golden.grouped([*found, other])
         ] == ['h.*.w (3 in all): it is gone', 'h.0.w: it is gone']


def test_fields_that_changed_alike_are_one_change() -> None:
  now = of(**{
      **WAS.sections, 'placements': {
          'w': {
              'marked': 'b',
              'stored': 'b'
          }
      }
  })
  assert said(now) == [
      'placements: w: marked, stored: it was a, and is b',
      'placements: w: shape: it was [2], and is absent'
  ]


def test_a_subject_that_is_gone_is_told_once() -> None:
  now = of(**{**WAS.sections, 'programs': {}, 'collectives': {}})
  assert said(now) == ['programs: p #1: it is gone']
  assert said(WAS, now) == ['programs: p #1: it is new']


def test_numbers_bytes_and_tolerances() -> None:
  now = of(**{**WAS.sections, 'memory': {'all': {'peak': 3072, 'code': 1}}})
  assert said(now) == [
      'memory: all: peak: it was 2.00 KiB (2,048 bytes), and is 3.00 KiB '
      '(3,072 bytes), +50.0 %',
      'memory: all: code: it was 0 bytes, and is 1 byte'
  ]
  allowed = lambda name: Tolerance(name, '1KiB', amount=1024)
  assert said(now, tolerance=allowed) == []
  allowed = lambda name: Tolerance(name, '1', amount=1)
  assert said(now, tolerance=allowed)[0].endswith('+50.0 % (tolerance 1)')


def test_long_values_are_shown_where_they_differ() -> None:
  was, now = (of(placements={'w': {'stored': 'x' * 500 + end}}) for end in 'ab')
  text, = said(now, was)
  assert len(text) < 250 and text.endswith('xxb...')


def test_who_made_it_is_told_where_something_differs() -> None:
  assert said(of('later', **WAS.sections)) == []
  other = of('later', **{**WAS.sections, 'memory': {'all': {'peak': 1}}})
  assert said(other)[1].startswith('memory: made by: it was not told, and is')


def test_counts_are_left_out_unless_chosen(tmp_path: Path) -> None:
  path = tmp_path / 'golden.json'
  assert golden.update(path, WAS) == (f'golden file {path} is new', ())
  kept = golden.read(path, 'audit')
  assert set(kept.sections) == set(golden.DEFAULT)
  with pytest.raises(GoldenFileError, match='no section counts, but'):
    kept.only(['counts'])
  golden.update(path, WAS, golden.SECTIONS)
  kept = golden.read(path, 'audit')
  assert kept == WAS
  assert tuple(kept.only(None).sections) == golden.DEFAULT
  assert list(kept.only(['counts']).sections) == ['counts']
  with pytest.raises(GoldenFileError, match='no section placements'):
    kept.only(['counts']).only(None)


def test_an_update_says_what_changed(tmp_path: Path) -> None:
  path = tmp_path / 'golden.json'
  golden.update(path, WAS)
  assert golden.update(path,
                       WAS) == (f'golden file {path}: nothing changed', ())
  now = of(**{**WAS.sections, 'programs': {}})
  line, found = golden.update(path, now)
  assert line.endswith(': updated') and len(found) == 1
  assert golden.read(path, 'audit').sections['programs'] == {}
  path.write_text('{}')
  assert golden.update(path, now)[0].startswith('replaced: golden file ')


@pytest.mark.parametrize('data, why', [
    ({'schema': 1}, 'it is a report of --json, which golden files once were'),
    ({'format': 'torch_xla.shardy.aot', 'reports': []}, 'it is a report of --json'),
    ({}, 'it is none of this audit'),
    ({**json.loads(WAS.to_text()), 'tool': 'aot'}, 'it is none of this audit'),
    ({**json.loads(WAS.to_text()), 'sections': [1]}, "'list' object has no attribute"),
])  # yapf: disable
def test_what_is_no_golden_file(data, why, tmp_path: Path) -> None:
  path = tmp_path / 'old.json'
  path.write_text(json.dumps(data))
  with pytest.raises(GoldenFileError) as e:
    golden.read(path, 'audit')
  assert str(e.value).startswith(f'golden file {path}: {why}')
  assert str(e.value).endswith('write one with --golden FILE --update-golden')
