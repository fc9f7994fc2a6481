"""The results of a judging command for CI systems."""

from __future__ import annotations

from collections.abc import Sequence
import dataclasses

from torch_xla_shardy.parser import write

from . import junit


@dataclasses.dataclass(frozen=True)
class Check:
  """One thing that was judged.

  Attributes:
    findings: what is wrong, a sentence each; empty: it is fine.
  """
  name: str
  findings: tuple[str, ...]


def write_junit(path: str, tool: str, checks: Sequence[Check]) -> None:
  """Writes the checks as JUnit's XML. Raises OutputError: it cannot be written.
  """
  tests = [
      junit.Test(
          tool,
          c.name,
          'failure' if c.findings else '',
          ''.join(c.findings[:1]),
          text='\n'.join(c.findings)) for c in checks
  ]
  write(path, junit.xml(tool, tests))
