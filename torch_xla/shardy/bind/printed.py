"""Keeps bindings and tags out of the graphs that the runtime prints.

`_XLAC` prints what it traced, and the calls that carry annotations are part of
that. No user wrote them, and no other tool knows them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import os
import re

import torch
import torch_xla

from ..annotate.call_target import PREFIX

_CALL = re.compile(
    r'^(\s*)(ROOT )?(%\S+) = (\S+|\(.*?\)) custom-call\((.*?)\), '
    rf'custom_call_target="{re.escape(PREFIX)}(\w+) ')
_NAME = re.compile(r'%[\w.\-]+')
_FILE_VARIABLE, _FORMAT_VARIABLE = 'XLA_SAVE_TENSORS_FILE', 'XLA_SAVE_TENSORS_FMT'


def without_calls(text: str) -> str:
  """HLO text in which a binding is the number 0 and a tag is not there."""
  if PREFIX not in text:
    return text
  lines = []
  instead: dict[str, str] = {}  # Of a tag's name.
  for line in text.split('\n'):
    call = _CALL.match(line)
    if call is not None:
      space, root, name, shape, operands, kind = call.groups()
      if kind == 'bind':
        line = f'{space}{root or ""}{name} = {shape} constant(0)'
      elif root:
        line = f'{space}{root}{name} = {shape} copy({operands})'
      else:
        instead[name] = _NAME.findall(operands)[-1]
        continue
    lines.append(line)

  def untagged(match: re.Match) -> str:
    name = match.group()
    while name in instead:
      name = instead[name]
    return name

  return '\n'.join(
      _NAME.sub(untagged, line) if '%' in line else line for line in lines)


def replace_printers() -> None:
  """Has `_XLAC` print graphs without our calls, from now on."""
  printer = torch_xla._XLAC._get_xla_tensors_hlo
  if getattr(printer, '__module__', None) == __name__:
    return

  def _get_xla_tensors_hlo(tensors: Sequence[torch.Tensor]) -> str:
    """The graph of these tensors as HLO text."""
    return without_calls(printer(tensors))

  torch_xla._XLAC._get_xla_tensors_hlo = _get_xla_tensors_hlo


class SavedGraphs:
  """The file that XLA_SAVE_TENSORS_FILE has each sync's graph added to."""

  def __init__(self, environ: Mapping[str, str]):
    self._environ = environ
    self._cleaned: dict[str, int] = {}  # Up to where, by path.

  def clean(self) -> None:
    """Takes our calls out of what was added since the last time."""
    base = self._environ.get(_FILE_VARIABLE)
    if not base or self._environ.get(_FORMAT_VARIABLE) != 'hlo':
      return
    # The runtime adds the number of the process's first device.
    path = f'{base}.{torch_xla._XLAC._xla_get_default_device_ordinal()}'
    if not os.path.exists(path):
      return
    with open(path, 'r+', encoding='utf-8') as file:
      if os.path.getsize(path) < self._cleaned.get(path, 0):
        self._cleaned[path] = 0  # Somebody began it anew.
      file.seek(self._cleaned.get(path, 0))
      start, text = file.tell(), file.read()
      cleaned = without_calls(text)
      if cleaned != text:
        file.seek(start)
        file.write(cleaned)
        file.truncate()
      self._cleaned[path] = start + len(cleaned.encode())
