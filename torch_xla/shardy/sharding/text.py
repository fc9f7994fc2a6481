"""Reads XLA's sharding text, V1 and V2 (`xla/hlo/parser/hlo_parser.cc`)."""

from __future__ import annotations

import re
from typing import Optional

from .hlo_sharding import (HloSharding, ShardingTextError, ShardingType,
                           SUBGROUP_ORDER, UnsupportedShardingError,
                           WHOLE_TYPES)
from .tile_assignment import DeviceList, IotaTileAssignment, TileAssignment


def parse_sharding(text: str) -> HloSharding:
  """Reads XLA's sharding text, V1 or V2; `metadata={...}` is passed over.

  Raises:
    ShardingTextError: malformed text, with the position.
    UnsupportedShardingError: shard groups, named (V3) shardings.
    TileAssignmentError: dims, devices and iota that contradict one another.
  """
  cursor = _Cursor(text)
  sharding = _parse_sharding(cursor)
  if cursor.position != len(text):
    raise cursor.error('the end')
  return sharding


class _Cursor:
  """A position in sharding text."""
  _SPACE = re.compile(r'(?:\s+|/\*.*?\*/)*', re.DOTALL)

  def __init__(self, text: str):
    self.text, self.position = text, 0
    self._skip_space()

  def _skip_space(self) -> None:
    if match := self._SPACE.match(self.text, self.position):
      self.position = match.end()

  def error(self, expected: str) -> ShardingTextError:
    return ShardingTextError(self.text, self.position, expected)

  def take(self, pattern: str) -> Optional[str]:
    """The text that matches here, and moves past it; None if none does."""
    match = re.compile(pattern).match(self.text, self.position)
    if match is None:
      return None
    self.position = match.end()
    self._skip_space()
    return match.group()

  def expect(self, pattern: str, expected: str) -> str:
    if (match := self.take(pattern)) is None:
      raise self.error(expected)
    return match

  def integers(self, expected: str) -> list[int]:
    start = self.position
    listed = self.expect(r'[-\d][-\d,\s]*', expected)
    try:
      return list(map(int, listed.split(',')))
    except ValueError as e:
      self.position = start
      raise self.error(f'{expected}, separated by commas') from e


def _parse_sharding(cursor: _Cursor) -> HloSharding:
  cursor.expect(r'\{', "'{'")
  if cursor.take(r'\}'):
    return HloSharding.tuple_of(())
  if not cursor.text.startswith('{', cursor.position):
    return _parse_leaf(cursor)
  elements: list[HloSharding] = []
  while not elements or cursor.take(','):
    cursor.expect(r'\{', "'{'")
    elements.append(_parse_leaf(cursor))
  cursor.expect(r'\}', "',' or '}'")
  return HloSharding.tuple_of(elements)


def _parse_leaf(cursor: _Cursor) -> HloSharding:
  """Parses a sharding that is not a tuple, behind its '{'."""
  for word in WHOLE_TYPES:
    if cursor.take(rf'{word.name.lower()}\b'):
      sharding = HloSharding.whole(word)
      break
  else:
    if cursor.take(r'maximal\b'):
      cursor.expect(r'device\s*=', "'device='")
      sharding = HloSharding.maximal(int(cursor.expect(r'\d+', 'a device id')))
    elif cursor.take(r'devices\s*='):
      sharding = _parse_tiled(cursor)
    elif cursor.take(r'mesh\b'):
      raise UnsupportedShardingError(f'named sharding: {cursor.text[:200]!r}')
    else:
      raise cursor.error("a sharding type or 'devices='")
  if cursor.take(r'shard_(as|like)\b'):
    raise UnsupportedShardingError(f'shard group: {cursor.text[:200]!r}')
  if cursor.take(r'metadata\s*='):
    _skip_metadata(cursor)
  cursor.expect(r'\}', "'}'")
  return sharding


def _parse_tiled(cursor: _Cursor) -> HloSharding:
  """Parses what follows `devices=`."""
  cursor.expect(r'\[', "'['")
  dims = cursor.integers('tile assignment dims')
  cursor.expect(r'\]', "',' or ']'")
  if cursor.take('<='):
    cursor.expect(r'\[', "'['")
    reshape_dims = cursor.integers('iota reshape dims')
    cursor.expect(r'\]', "',' or ']'")
    perm = [0]
    if len(reshape_dims) > 1:
      cursor.expect(r'T\s*\(', "'T('")
      perm = cursor.integers('an iota transpose perm')
      cursor.expect(r'\)', "',' or ')'")
    tiles: TileAssignment = IotaTileAssignment(
        tuple(dims), tuple(reshape_dims), tuple(perm))
  else:
    devices = cursor.integers("device ids or '<='")
    tiles = DeviceList.from_devices(devices, dims)
  types: list[ShardingType] = []
  if cursor.take(r'last_tile_dim_replicate\b'):
    types.append(ShardingType.REPLICATED)
  elif cursor.take(r'last_tile_dims\s*=\s*\{'):
    names = '|'.join(t.name.lower() for t in SUBGROUP_ORDER)
    while not cursor.take(r'\}'):
      if types:
        cursor.expect(',', "',' or '}'")
      name = cursor.expect(rf'({names})\b', f'one of {names}')
      types.append(ShardingType[name.upper()])
  return HloSharding.tiled(tiles, types)


def _skip_metadata(cursor: _Cursor) -> None:
  cursor.expect(r'\{', "'{'")
  depth = 1
  while depth:
    token = cursor.expect(r'"(?:[^"\\]|\\.)*"|[{}]|[^"{}]+', "'}'")
    depth += {'{': 1, '}': -1}.get(token, 0)
