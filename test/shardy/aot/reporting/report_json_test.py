"""Reports as JSON, and back."""

from __future__ import annotations

import json
from pathlib import Path

import aot_reports as make
import hypothesis
from hypothesis import strategies as st
import properties
import pytest
from torch_xla.shardy.aot.reporting import json_form
from torch_xla.shardy.aot import report as values
from torch_xla.shardy.aot.reporting.json_form import ReportFileError

_FLOATS = st.floats(allow_nan=False, allow_infinity=False)
_PROGRAMS = st.builds(
    values.Program, seconds=_FLOATS, flops=st.none() | _FLOATS)
_REPORTS = st.builds(
    values.AotReport,
    programs=st.lists(_PROGRAMS, max_size=3).map(tuple),
    usual_step=st.just(()),
    seconds=_FLOATS)


@properties.examples(60)
@hypothesis.given(st.lists(_REPORTS, max_size=3))
def test_what_comes_back_is_what_was_written(reports: list) -> None:
  assert json_form.from_json(json_form.to_json(reports), 'x') == (
      tuple(reports))


@pytest.mark.parametrize(
    'report',
    [make.report(), make.awkward(), make.empty()])
def test_awkward_reports_come_back_from_a_file(report: values.AotReport,
                                               tmp_path: Path) -> None:
  path = tmp_path / 'report.json'
  path.write_text(json_form.to_json([report, report]), encoding='utf-8')
  assert json_form.read(path) == (report, report)


def broken(change) -> str:
  data = json.loads(json_form.to_json([make.report()]))
  change(data)
  return json.dumps(data)


@pytest.mark.parametrize('text, why', [
    ('{"format":', 'is damaged, no JSON'),
    ('{"schema": 1, "tensors": {}}', 'is JSON of something else'),
    (broken(lambda d: d.update(version=4)),
     'is of version 4, and this torch_xla reads version 3'),
    (broken(lambda d: d.pop('reports')), "is damaged: KeyError 'reports'"),
    (broken(lambda d: d['reports'][0]['programs'][1]['memory'].pop('code')),
     "is damaged: KeyError 'code'"),
    (broken(lambda d: d['reports'][0].update(programs=1)),
     'is damaged: TypeError'),
])
def test_what_cannot_be_read_names_the_file(text: str, why: str,
                                            tmp_path: Path) -> None:
  path = tmp_path / 'golden.json'
  path.write_text(text, encoding='utf-8')
  with pytest.raises(ReportFileError) as e:
    json_form.read(path)
  assert str(e.value).startswith(f'report {path} ')
  assert why in str(e.value)
  assert str(e.value).endswith('; write one with --json FILE')


def test_files_that_are_none(tmp_path: Path) -> None:
  with pytest.raises(ReportFileError, match='No such file'):
    json_form.read(tmp_path / 'absent.json')
  path = tmp_path / 'binary.json'
  path.write_bytes(b'\xff\xfe\x00')
  with pytest.raises(ReportFileError, match='binary.json: .* decode'):
    json_form.read(path)
