"""The plugin that is judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import dataclasses
import os
from typing import Any

from .case import ConformanceError

# Of a library, which has no name of its own: no underscore, see
# `door.device_plugins`.
LIBRARY_DEVICE = 'CONFORMANCE'


@dataclasses.dataclass(frozen=True)
class Subject:
  """A plugin: a library file, or a device that is registered.

  Attributes:
    device: the name that torch_xla knows it by.
    library: its path; empty if the registered plugin tells it.
    options: of its client, beside those that a registered plugin gives.
    topology: the name of one that it compiles for without a device; empty: none
      is known.
  """
  device: str
  library: str = ''
  options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  topology: str = ''

  @classmethod
  def from_library(cls, path: str, options: Mapping[str, Any],
                   topology: str) -> Subject:
    """The subject of a run that judges a plugin's library.

    Raises:
      ConformanceError: there is no such file.
    """
    if not os.path.isfile(path):
      raise ConformanceError(
          f'--plugin {path}: there is no such file; give the library of a PJRT '
          'plugin, or --device with the name of a registered one')
    return cls(LIBRARY_DEVICE, os.path.abspath(path), options, topology)


def parse_options(texts: Sequence[str]) -> dict[str, Any]:
  """Options of a client: 'devices=8', 'fast=true', 'name=x', 'mesh=2,4'.

  Whole numbers, decimals and booleans are told by their looks; quotes, as in
  'name="8"', make text of anything.

  Raises:
    ConformanceError: one has no name or no value, or a name comes twice.
  """
  options: dict[str, Any] = {}
  for text in texts:
    name, equals, value = text.partition('=')
    if not name or not equals:
      raise ConformanceError(
          f'--options {text}: write it as NAME=VALUE, as in devices=8')
    if name in options:
      raise ConformanceError(f'--options {name} is given twice')
    options[name] = _value(value)
    if isinstance(options[name], int) and abs(options[name]) >= 1 << 63:
      raise ConformanceError(f'--options {text}: it is more than 64 bits hold')
  return options


def _value(text: str) -> Any:
  if len(text) > 1 and text[0] == text[-1] == '"':
    return text[1:-1]
  if text in ('true', 'false'):
    return text == 'true'
  for kind in (int, float):
    try:
      return kind(text)
    except ValueError:
      pass
  if ',' in text:
    try:
      return tuple(int(part) for part in text.split(','))
    except ValueError:
      pass
  return text
