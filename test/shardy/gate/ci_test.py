"""What CI systems are told."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from torch_xla.shardy.gate import ci

CHECKS = (ci.Check('fine', ()),
          ci.Check('peak<=1, 2', ('50 % more\nthan `ever`', 'other')))


def test_junit(tmp_path: Path) -> None:
  path = tmp_path / 'found.xml'
  ci.tell('aot', CHECKS, str(path), {})
  suite = ElementTree.parse(path).getroot()
  assert (suite.get('tests'), suite.get('failures')) == ('2', '1')
  assert [t.get('name') for t in suite] == ['fine', 'peak<=1, 2']
  assert suite[1][0].text == '50 % more\nthan `ever`\nother'


def test_githubs_annotations_and_summary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
  summary = tmp_path / 'summary.md'
  summary.write_text('before\n')
  ci.tell('aot', CHECKS, None, {
      'GITHUB_ACTIONS': 'true',
      'GITHUB_STEP_SUMMARY': str(summary)
  })
  assert capsys.readouterr().out == (
      '::error title=aot%3A peak<=1%2C 2::50 %25 more%0Athan `ever`\n'
      '::error title=aot%3A peak<=1%2C 2::other\n')
  assert summary.read_text() == (
      "before\n### aot: 2 finding(s)\n\n- **peak<=1, 2**: `50 % more than "
      "'ever'`\n- **peak<=1, 2**: `other`\n\n")


def test_elsewhere_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
  ci.tell('aot', CHECKS, None, {})
  assert capsys.readouterr().out == ''
