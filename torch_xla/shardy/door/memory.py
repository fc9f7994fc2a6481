"""The memory of a compiled program, as backends report it."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Memory:
  """The memory that a program needs on one device, in bytes.

  Attributes:
    arguments: its parameters.
    outputs: its results.
    aliases: of the results, what lies in memory of parameters.
    temporaries: what it needs meanwhile.
    code: the program itself.
  """
  arguments: int
  outputs: int
  aliases: int
  temporaries: int
  code: int

  @property
  def peak(self) -> int:
    return (self.arguments + self.outputs - self.aliases + self.temporaries +
            self.code)
