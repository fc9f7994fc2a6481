"""What mkdocs.yml gives griffe: how docstrings become the site's reference."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r'^( *)>>> .*\n?(?:^ *\S.*\n?)*', re.MULTILINE)


def _fenced(docstring: str) -> str:
  """Puts fences around the examples, each of which ends at an empty line."""
  return _EXAMPLE.sub(
      lambda m: f'{m[1]}```python\n{m[0].rstrip()}\n{m[1]}```\n', docstring)


class Reference(griffe.Extension):
  """Examples are code, and a function is not lost to a module of its name."""

  def __init__(self) -> None:
    self._functions: list[griffe.Function] = []

  def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
    if obj.docstring:
      obj.docstring.value = _fenced(obj.docstring.value)

  def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
    if isinstance(func.parent, griffe.Module) and func.parent.is_init_module:
      self._functions.append(func)

  def on_package(self, **_: Any) -> None:
    # griffe puts the module explain.py in place of the package's explain().
    for function in self._functions:
      if function.parent.members[function.name] is not function:
        function.parent.set_member(function.name, function)
    self._functions.clear()
