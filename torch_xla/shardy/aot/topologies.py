"""Topologies as users name them, and as libtpu does."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Optional

_NAME = re.compile(r'(?:(\d+)\*)?([a-z0-9]+)(?::(\d+(?:x\d+)*)|-(\d+))')


class TopologyError(ValueError):
  """A topology that is not known."""


@dataclasses.dataclass(frozen=True)
class Generation:
  """A kind of TPU.

  Attributes:
    name: as libtpu knows it, 'v5e'.
    others: what else users call it.
    rank: of the torus in which its chips are connected.
    accelerator: before the dash of an accelerator type, 'v5litepod'.
    counts_cores: whether the number behind the dash is of cores, two a chip;
      where it is of chips, 8 of them are one host.
    memory: of a device, in letters of 1024.
    longest: the most chips along an axis; libtpu ends the process of more.
    cores_apart: whether each chip is two devices.
    chip_config: libtpu's setting for the devices that torch_xla would see.
  """
  name: str
  others: tuple[str, ...]
  rank: int
  accelerator: str
  counts_cores: bool
  memory: str
  longest: Optional[int] = None
  cores_apart: bool = False
  chip_config: Optional[str] = None


# Sizes of accelerator types: cloud.google.com/tpu/docs. On v4 torch_xla asks
# for both cores of a chip as one device (TPU_MEGACORE in its __init__.py).
# Memory: as libtpu 0.0.42.1 says it when it refuses what does not fit.
GENERATIONS = (
    Generation('v2', (), 2, 'v2', True, '7.48G', cores_apart=True),
    Generation('v3', (), 2, 'v3', True, '15.48G', cores_apart=True),
    Generation('v4', (), 3, 'v4', True, '31.75G', chip_config='megacore_dense'),
    Generation(
        'v5e', ('v5litepod', 'v5lite'),
        2,
        'v5litepod',
        False,
        '15.75G',
        longest=16),
    Generation('v5p', (), 3, 'v5p', True, '95.74G'),
    Generation('v6e', ('trillium',), 2, 'v6e', False, '31.25G', longest=16),
    Generation(
        'tpu7x', ('v7x', 'ironwood'),
        3,
        'tpu7x',
        True,
        '94.75G',
        cores_apart=True),
)


@dataclasses.dataclass(frozen=True)
class TopologyName:
  """A topology that was asked for.

  Attributes:
    text: as it was asked for.
    generation: of its chips.
    layout: chips along each axis of the torus, of one slice.
    chips_per_host: along each axis of the torus, three of them.
    slices: how many such slices.
  """
  text: str
  generation: Generation
  layout: tuple[int, ...]
  chips_per_host: tuple[int, int, int]
  slices: int

  @property
  def for_library(self) -> str:
    """The name of one slice in libtpu, 'v5e:16x16'."""
    return f'{self.generation.name}:{"x".join(map(str, self.layout))}'

  @property
  def chips(self) -> int:
    """The number of chips of all slices."""
    return math.prod(self.layout) * self.slices

  @property
  def host_layout(self) -> tuple[int, int, int]:
    """Hosts of one slice along each axis of the torus."""
    x, y, z = (*self.layout, 1, 1)[:3]
    a, b, c = self.chips_per_host
    return x // a, y // b, z // c

  @property
  def hosts(self) -> int:
    """The number of hosts of all slices."""
    return math.prod(self.host_layout) * self.slices

  @property
  def accelerator_type(self) -> str:
    """The type of one slice, as a TPU VM says it: 'v5litepod-256'."""
    count = math.prod(self.layout) * (1 + self.generation.counts_cores)
    return f'{self.generation.accelerator}-{count}'

  @property
  def options(self) -> dict[str, object]:
    """The options that libtpu needs besides the name."""
    found: dict[str, object] = {'chips_per_host_bounds': self.chips_per_host}
    if self.generation.chip_config:
      found['chip_config_name'] = self.generation.chip_config
    if self.slices > 1:
      found['num_slices'] = self.slices
    return found


def parse(text: str) -> TopologyName:
  """Reads 'v5e:16x16', the accelerator type 'v5litepod-256', '2*v5e:16x16'."""
  match = _NAME.fullmatch(text.strip().lower())
  if match is None:
    raise TopologyError(f'{text!r} is no topology. {known()}')
  slices, name, layout, size = match.groups()
  if slices == '0':
    raise TopologyError(f'{text!r} has no slice: give 1 or more')
  generation = next((g for g in GENERATIONS if name in (g.name, *g.others)),
                    None)
  if generation is None:
    raise TopologyError(
        f'{text!r}: no kind of TPU is called {name!r}. {known()}')
  if size is not None:
    dims = _layout_of(generation, int(size), text)
    is_host = size == '8' and not generation.counts_cores
    host = (2, 4, 1) if is_host else None
  else:
    dims, host = tuple(map(int, layout.split('x'))), None
    _check(generation, dims, text)
  x, y, _ = (*dims, 1, 1)[:3]
  return TopologyName(text, generation, dims, host or (min(x, 2), min(y, 2), 1),
                      int(slices or 1))


def known() -> str:
  """Says which topologies there are, and how they are named."""
  lines = [
      'Known are, in chips along each axis of a slice, or as an accelerator '
      'type:'
  ]
  for generation in GENERATIONS:
    sizes = [_example(generation, chips) for chips in (4, 8, 64, 256)]
    also = f' (also {", ".join(generation.others)})' if generation.others else ''
    apart = '; two devices a chip' if generation.cores_apart else ''
    lines.append(f'  {generation.name}{also}: {", ".join(sizes)}, ...{apart}')
  lines.append('and several slices of one: 2*v5e:16x16')
  return '\n'.join(lines)


def _example(generation: Generation, chips: int) -> str:
  dims = 'x'.join(map(str, _spread(generation.rank, chips)))
  number = chips * (1 + generation.counts_cores)
  return f'{generation.name}:{dims} or {generation.accelerator}-{number}'


def _layout_of(generation: Generation, size: int, text: str) -> tuple[int, ...]:
  chips, rest = divmod(size, 1 + generation.counts_cores)
  smallest = 4 if generation.counts_cores else 1
  if rest or chips < smallest or chips & (chips - 1):
    unit = 'cores, two a chip' if generation.counts_cores else 'chips'
    first = smallest * (1 + generation.counts_cores)
    raise TopologyError(
        f'{text!r}: an accelerator type counts {unit}: {first}, {2 * first}, '
        f'{4 * first} and so on. Other slices have a layout: '
        f'{generation.name}:{"x".join("4" * generation.rank)}')
  return _spread(generation.rank, chips)


def _spread(rank: int, chips: int) -> tuple[int, ...]:
  """The layout of the accelerator type with so many chips, a power of two."""
  power = chips.bit_length() - 1
  if rank == 2:
    return 2**(power // 2), 2**((power + 1) // 2)
  if power < 3:  # A host lies flat.
    return 2**(power // 2), 2**((power + 1) // 2), 1
  return tuple(2**((power + i) // 3) for i in range(3))


def _check(generation: Generation, dims: tuple[int, ...], text: str) -> None:
  if len(dims) != generation.rank:
    raise TopologyError(
        f'{text!r}: the chips of a {generation.name} are connected along '
        f'{generation.rank} axes, and this names {len(dims)}: '
        f'{generation.name}:{"x".join("4" * generation.rank)} is one')
  if 0 in dims:
    raise TopologyError(f'{text!r} has no chips')
  if generation.longest and max(dims) > generation.longest:
    raise TopologyError(
        f'{text!r}: a {generation.name} slice has at most {generation.longest} '
        f'chips along an axis; several slices are 2*{generation.name}:16x16')
  odd = [d for d in dims[:2] if d > 1 and d % 2]
  if odd:
    raise TopologyError(
        f'{text!r}: a host has 2x2 chips, so that an axis of {odd[0]} cannot '
        f'be cut into hosts; use {odd[0] + 1} or {odd[0] - 1}')
