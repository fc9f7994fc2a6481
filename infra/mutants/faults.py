"""The table of faults, `faults.toml`: what a slip looks like, and who sees it.

    ["FILE".NAME]
    find = a text that the file has exactly once
    put = what takes its place
    test = what has to fail: a module under test/, or a node id of pytest's

FILE is in the checkout, or an official file as the wheel has it, and NAME says
what goes wrong, in a few words with hyphens.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
import tomllib

from infra.errors import BuildError

TABLE = 'infra/mutants/faults.toml'


@dataclasses.dataclass(frozen=True)
class Fault:
  """A row of the table."""
  name: str
  file: str
  find: str
  put: str
  test: str

  def planted(self, text: str) -> str:
    """The file's text with the fault.

    Raises:
      BuildError: it is not as the table says.
    """
    count = text.count(self.find)
    if count != 1:
      raise BuildError(f'{self.name}: {self.file} has the text {count} times '
                       f'and not once:\n{self.find}')
    if self.put == self.find:
      raise BuildError(f'{self.name}: changes nothing')
    return text.replace(self.find, self.put)


def load(root: Path) -> list[Fault]:
  """The table of a checkout.

  Raises:
    BuildError: it is no table of faults.
  """
  try:
    table = tomllib.loads((root / TABLE).read_text(encoding='utf-8'))
    faults = [
        Fault(name, file, **row)
        for file, rows in table.items()
        for name, row in rows.items()
    ]
  except (OSError, ValueError, AttributeError, TypeError) as error:
    raise BuildError(f'{TABLE}: {error}') from error
  names = [fault.name for fault in faults]
  if twice := sorted({name for name in names if names.count(name) > 1}):
    raise BuildError(f'{TABLE}: two faults are called {", ".join(twice)}')
  return faults


def named(faults: list[Fault], names: list[str]) -> list[Fault]:
  """The faults of these names, or all if no name is given.

  Raises:
    BuildError: a name is not in the table.
  """
  known = {fault.name for fault in faults}
  if unknown := [name for name in names if name not in known]:
    raise BuildError(f'{TABLE} has no fault {", ".join(unknown)}')
  return [fault for fault in faults if not names or fault.name in names]
