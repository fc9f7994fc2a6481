"""What CI systems are told."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from torch_xla.shardy.gate import ci

CHECKS = (ci.Check('fine', ()),
          ci.Check('peak<=1, 2', ('50 % more\nthan `ever`', 'other')))


def test_junit(tmp_path: Path) -> None:
  path = tmp_path / 'found.xml'
  ci.write_junit(str(path), 'aot', CHECKS)
  suite = ElementTree.parse(path).getroot()
  assert (suite.get('tests'), suite.get('failures')) == ('2', '1')
  assert [t.get('name') for t in suite] == ['fine', 'peak<=1, 2']
  assert suite[1][0].text == '50 % more\nthan `ever`\nother'
