"""What CI systems are told."""

from __future__ import annotations

from xml.etree import ElementTree

from torch_xla.shardy.gate import junit

CHECKS = (junit.Check('fine', ()),
          junit.Check('peak<=1, 2', ('50 % more\nthan `ever`', 'other')))


def test_junit() -> None:
  suite = ElementTree.fromstring(junit.of_checks('aot', CHECKS).encode('utf-8'))
  assert (suite.get('tests'), suite.get('failures')) == ('2', '1')
  assert [t.get('name') for t in suite] == ['fine', 'peak<=1, 2']
  assert suite[1][0].text == '50 % more\nthan `ever`\nother'
