"""The rewrites of operations, by name, and those that a plugin disables.

A vendor whose compiler has rules of its own for some operations says so by a
method of its DevicePlugin, and gets these as torch_xla traces them:

    def rewrites(self) -> dict[str, bool]:
      return {'batch_norm': False}

docs/stablehlo.md has a table of the names. One that the method does not name is
applied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from . import batch_norm, dot_dims, index_dims
from ..errors import DoorError
from ..hlo.editor import instructions_of
from ..hlo.protos import HloModuleProto


class Rewrite(NamedTuple):
  """An equivalent of operations that shardings propagate through.

  Attributes:
    opcodes: those that it rewrites.
    rewrite: rewrites a module, in place; returns how many operations.
  """
  opcodes: frozenset[str]
  rewrite: Callable[[HloModuleProto], int]


# In the order in which they are applied.
FOR_SHARDINGS = {
    'batch_norm': Rewrite(batch_norm.OPCODES, batch_norm.expand),
    'dot_dims': Rewrite(dot_dims.OPCODES, dot_dims.unmerge),
    'index_dims': Rewrite(index_dims.OPCODES, index_dims.batch),
}
# Done elsewhere. Without them a program has no form that the plugin reads, or
# XLA's partitioner computes something else or ends the process.
ALWAYS = frozenset(
    ('composites', 'contractions', 'conversion', 'convolutions', 'manual',
     'padding', 'partial_sums', 'scatter_indices', 'untuple', 'windows'))


def chosen(
    module: HloModuleProto, disabled: Collection[str] = ()
) -> list[tuple[str, Callable[[HloModuleProto], int]]]:
  """The passes that a module needs, by name, in order.

  Args:
    disabled: names in `FOR_SHARDINGS` of rewrites to skip.
  """
  opcodes = {i.opcode for i in instructions_of(module)}
  return [(name, rewrite)
          for name, (needs, rewrite) in FOR_SHARDINGS.items()
          if name not in disabled and not opcodes.isdisjoint(needs)]


def disabled_rewrites(plugin: Any) -> frozenset[str]:
  """The names of the rewrites that a plugin disables.

  Args:
    plugin: its DevicePlugin, which may have a method `rewrites`.
  """
  method = getattr(plugin, 'rewrites', None)
  if method is None:
    return frozenset()
  flags = method()
  who = type(plugin).__name__
  names = ', '.join(map(repr, FOR_SHARDINGS))
  if not isinstance(flags, Mapping) or not all(
      isinstance(is_applied, bool) for is_applied in flags.values()):
    raise DoorError(
        f'{who}.rewrites() gives {flags!r}; it must be a dict that says of some '
        f'of {names} whether they are applied, True or False')
  for name in flags:
    if name in ALWAYS:
      raise DoorError(
          f'{who}.rewrites() names {name!r}, which is always applied: without '
          'it results would be wrong, or a program not be compiled. It can '
          f'name {names}')
    if name not in FOR_SHARDINGS:
      raise DoorError(f'{who}.rewrites() names {name!r}; it can name {names}')
  return frozenset(name for name, is_applied in flags.items() if not is_applied)
