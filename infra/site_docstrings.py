"""The extension of mkdocs.yml that makes examples in docstrings code."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r'^( *)>>> .*\n?(?:^ *\S.*\n?)*', re.MULTILINE)


def _fenced(docstring: str) -> str:
  """Puts fences around the examples, each of which ends at an empty line."""
  return _EXAMPLE.sub(
      lambda m: f'{m[1]}```python\n{m[0].rstrip()}\n{m[1]}```\n', docstring)


class Examples(griffe.Extension):
  """Fences the examples of each object."""

  def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
    if obj.docstring:
      obj.docstring.value = _fenced(obj.docstring.value)
