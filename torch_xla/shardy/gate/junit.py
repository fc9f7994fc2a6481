"""Tests, and what a command judged, as JUnit's XML, which CI systems read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import dataclasses
import re
from types import MappingProxyType
from typing import NamedTuple
from xml.etree import ElementTree

# Not in XML 1.0, even if escaped.
_FORBIDDEN = re.compile(
    '[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]')


@dataclasses.dataclass(frozen=True)
class Test:
  """The outcome of one test, for a JUnit file.

  Attributes:
    kind: 'failure', 'error' or 'skipped'; empty: it passed.
    message: why, or what a passed one said.
    type, text: of a failure or error, what else there is to say.
    seconds: that it took.
  """
  classname: str
  name: str
  kind: str = ''
  message: str = ''
  type: str = ''
  text: str = ''
  seconds: float = 0.0


class Check(NamedTuple):
  """One thing that a command judged.

  Attributes:
    findings: what is wrong, a sentence each; empty: it is fine.
  """
  name: str
  findings: tuple[str, ...]


def of_checks(tool: str, checks: Sequence[Check]) -> str:
  """The checks as a suite of tests."""
  return xml(tool, [
      Test(
          tool,
          name,
          'failure' * bool(findings),
          ''.join(findings[:1]),
          text='\n'.join(findings)) for name, findings in checks
  ])


def xml(
    name: str,
    tests: Sequence[Test],
    seconds: float = 0.0,
    properties: Mapping[str, str] = MappingProxyType({})
) -> str:
  """A suite of that name; what XML cannot hold is a question mark."""
  suite = ElementTree.Element(
      'testsuite',
      name=_clean(name),
      tests=str(len(tests)),
      failures=str(sum(test.kind == 'failure' for test in tests)),
      errors=str(sum(test.kind == 'error' for test in tests)),
      skipped=str(sum(test.kind == 'skipped' for test in tests)),
      time=f'{seconds:.3f}')
  if properties:
    listed = ElementTree.SubElement(suite, 'properties')
    for key, value in properties.items():
      ElementTree.SubElement(
          listed, 'property', name=_clean(key), value=_clean(value))
  for test in tests:
    case = ElementTree.SubElement(
        suite,
        'testcase',
        classname=_clean(test.classname),
        name=_clean(test.name),
        time=f'{test.seconds:.3f}')
    if test.kind:
      note = ElementTree.SubElement(
          case, test.kind, message=_clean(test.message))
      if test.type:
        note.set('type', test.type)
      note.text = _clean(test.text) or None
    elif test.message:
      ElementTree.SubElement(case, 'system-out').text = _clean(test.message)
  ElementTree.indent(suite)
  return ('<?xml version="1.0" encoding="utf-8"?>\n' +
          ElementTree.tostring(suite, encoding='unicode') + '\n')


def _clean(words: str) -> str:
  return _FORBIDDEN.sub('?', words)
