"""Keeps bindings and tags out of the graphs that the runtime prints.

`_XLAC` prints what it traced, and the calls that carry annotations are part of
that. No user wrote them, and no other tool knows them.
"""

from __future__ import annotations

from collections.abc import Sequence
import re
from typing import Optional

import torch
import torch_xla

from ..annotate.call_target import PREFIX

_CALL = re.compile(
    r'^(\s*)(ROOT )?(%\S+) = (\S+|\(.*?\)) custom-call\((.*?)\), '
    rf'custom_call_target="{re.escape(PREFIX)}(\w+) ')
_NAME = re.compile(r'%[\w.\-]+')
_BEGINNING = 'HloModule '


def without_calls(text: str) -> str:
  """A program's text with the number 0 for each binding, and no tags.

  Args:
    text: HLO, one program or many.
  """
  if PREFIX not in text:
    return text
  lines = []
  instead: dict[str, str] = {}  # Of a tag's name, in this program.

  def untagged(match: re.Match[str]) -> str:
    return instead.get(match.group(), match.group())

  for line in text.split('\n'):
    if line.startswith(_BEGINNING):
      instead.clear()
    if instead:
      line = _NAME.sub(untagged, line)
    left = _without_call(line, instead) if PREFIX in line else line
    if left is not None:
      lines.append(left)
  return '\n'.join(lines)


def _without_call(line: str, instead: dict[str, str]) -> Optional[str]:
  """The rest of a line with a call of ours; None if there is none."""
  call = _CALL.match(line)
  if call is None:
    return line
  space, root, name, kind, operands, call_kind = call.groups()
  if call_kind == 'bind':
    return f'{space}{root or ""}{name} = {kind} constant(0)'
  if root:
    return f'{space}{root}{name} = {kind} copy({operands})'
  instead[name] = _NAME.findall(operands)[-1]
  return None


def replace_printer() -> None:
  """Replaces `_XLAC`'s printer of graphs, once."""
  printer = torch_xla._XLAC._get_xla_tensors_hlo
  if getattr(printer, '__module__', None) == __name__:
    return

  def _get_xla_tensors_hlo(tensors: Sequence[torch.Tensor]) -> str:
    """The graph of these tensors as HLO text."""
    return without_calls(printer(tensors))

  torch_xla._XLAC._get_xla_tensors_hlo = _get_xla_tensors_hlo
