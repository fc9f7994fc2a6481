"""Keeps bindings and tags out of the graphs that the runtime prints.

`_XLAC` prints what it traced, and the calls that carry annotations are part of
that. No user wrote them, and no other tool knows them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import os
import re
from typing import Optional

import torch
import torch_xla

from ..annotate.call_target import PREFIX

_CALL = re.compile(
    r'^(\s*)(ROOT )?(%\S+) = (\S+|\(.*?\)) custom-call\((.*?)\), '
    rf'custom_call_target="{re.escape(PREFIX)}(\w+) ')
_CALL_IN_MLIR = re.compile(
    rf'^(\s*)()(%\S+) = \w+\.custom_call @"{re.escape(PREFIX)}(?=(\w+) )[^"]*"'
    r'\((.*?)\) .*-> (\S+)')
_NAME = re.compile(r'%[\w.\-]+')
_BEGINNING = re.compile(r'HloModule |\s*func\.func ')
_FILE_VARIABLE, _FORMAT_VARIABLE = 'XLA_SAVE_TENSORS_FILE', 'XLA_SAVE_TENSORS_FMT'

# Of graphs that are saved, those with a call's target in them.
_FORMATS = ('hlo', 'stablehlo')


def without_calls(text: str) -> str:
  """A program's text with the number 0 for each binding, and no tags.

  Args:
    text: HLO or StableHLO, one program or many.
  """
  if PREFIX not in text:
    return text
  lines = []
  instead: dict[str, str] = {}  # Of a tag's name, in this program.

  def untagged(match: re.Match[str]) -> str:
    return instead.get(match.group(), match.group())

  for line in text.split('\n'):
    if _BEGINNING.match(line):
      instead.clear()
    if instead:
      line = _NAME.sub(untagged, line)
    left = _without_call(line, instead) if PREFIX in line else line
    if left is not None:
      lines.append(left)
  return '\n'.join(lines)


def _without_call(line: str, instead: dict[str, str]) -> Optional[str]:
  """The rest of a line with a call of ours; None if there is none."""
  if call := _CALL.match(line):
    space, root, name, kind, operands, call_kind = call.groups()
    zero = f'{kind} constant(0)'
  elif call := _CALL_IN_MLIR.match(line):
    space, root, name, call_kind, operands, kind = call.groups()
    zero = f'stablehlo.constant dense<0.000000e+00> : {kind}'
  else:
    return line
  if call_kind == 'bind':
    return f'{space}{root or ""}{name} = {zero}'
  if root:
    return f'{space}{root}{name} = {kind} copy({operands})'
  instead[name] = _NAME.findall(operands)[-1]
  return None


def replace_printers() -> bool:
  """Replaces `_XLAC`'s printer of graphs; False if it was replaced before."""
  printer = torch_xla._XLAC._get_xla_tensors_hlo
  if getattr(printer, '__module__', None) == __name__:
    return False

  def _get_xla_tensors_hlo(tensors: Sequence[torch.Tensor]) -> str:
    """The graph of these tensors as HLO text."""
    return without_calls(printer(tensors))

  torch_xla._XLAC._get_xla_tensors_hlo = _get_xla_tensors_hlo
  return True


class SavedGraphs:
  """The file that XLA_SAVE_TENSORS_FILE has each sync's graph added to."""

  def __init__(self, environ: Mapping[str, str]):
    self._environ = environ
    self._cleaned: dict[str, int] = {}  # Up to where, by path.

  def clean(self) -> None:
    """Takes our calls out of what was added since the last time."""
    base = self._environ.get(_FILE_VARIABLE)
    if not base or self._environ.get(_FORMAT_VARIABLE) not in _FORMATS:
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
