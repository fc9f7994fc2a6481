"""A wrong plugin (test/csrc/wrong_plugin), and what is to be found of it.

A row names a fault, the cases that are meant to find it, with words that the
finding must hold, and cases that the fault does not touch. faults_test.py runs
the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
import dataclasses


@dataclasses.dataclass(frozen=True)
class Found:
  """What a case, or a part of one, has to come to.

  Attributes:
    name: 'donation.real/taken'.
    text: that is in what is said of it.
  """
  name: str
  text: str
  status: str = 'failed'


@dataclasses.dataclass(frozen=True)
class Row:
  """A wrong plugin.

  Attributes:
    opcode: of the programs that have the fault; empty: of all. Or the number
      that is in place of the fault's own.
    passes: what is run too, and passes: the fault is not everywhere.
    seconds: of a part, for those that hang.
    capabilities: some of those that are measured.
    topology: of libtpu; empty: before XLA's CPU plugin, with eight devices.
  """
  fault: str
  found: tuple[Found, ...]
  passes: tuple[str, ...] = ()
  opcode: str = ''
  seconds: float = 60
  capabilities: Mapping[str, object] = dataclasses.field(default_factory=dict)
  topology: str = ''

  @property
  def id(self) -> str:
    return f'{self.fault}@{self.opcode}' if self.opcode else self.fault


def failed(fault: str,
           name: str,
           text: str,
           *passes: str,
           opcode: str = '') -> Row:
  return Row(fault, (Found(name, text),), passes, opcode)


def missing(fault: str, capability: str, name: str, text: str, *passes:
            str) -> Row:
  """What a plugin cannot do is told, and is no finding."""
  return Row(
      fault, (Found(name, text, 'skipped'),),
      passes,
      capabilities={capability: False})


def crashed(fault: str,
            name: str,
            *passes: str,
            text: str = 'was ended by SIGABRT',
            opcode: str = '') -> Row:
  return Row(fault, (Found(name, text, 'crashed'),), passes, opcode)
