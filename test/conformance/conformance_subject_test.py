"""What is judged, as the command line says it."""

from __future__ import annotations

import pytest
from torch_xla_conformance.case import ConformanceError
from torch_xla_conformance.subject import parse_options, Subject


def test_options_by_their_looks() -> None:
  assert parse_options([
      'devices=8', 'fast=true', 'slow=false', 'share=0.5', 'name=x=y',
      'mesh=2,4', 'text="8"', 'empty=', 'words=a,b'
  ]) == {
      'devices': 8,
      'fast': True,
      'slow': False,
      'share': 0.5,
      'name': 'x=y',
      'mesh': (2, 4),
      'text': '8',
      'empty': '',
      'words': 'a,b',
  }


@pytest.mark.parametrize(
    'texts, message',
    [(['devices'], '--options devices: write it as NAME=VALUE'),
     (['=8'], '--options =8: write it as NAME=VALUE'),
     (['a=1', 'a=2'], '--options a is given twice')])
def test_options_that_are_none(texts: list[str], message: str) -> None:
  with pytest.raises(ConformanceError, match=message):
    parse_options(texts)


def test_a_library_that_is_not_there() -> None:
  with pytest.raises(ConformanceError, match='no-such.so: there is no such'):
    Subject.from_library('no-such.so', {}, '')
