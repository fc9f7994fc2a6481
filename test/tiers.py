"""Which tests a run leaves out, and how much a property test then tries.

A test without a mark is in the core, `slow` puts it into the whole and
`nightly` into all. CONTRIBUTING.md says which is for what.
"""

from __future__ import annotations

from collections.abc import Iterable
import dataclasses
from pathlib import Path

import pytest

import properties

CORE, WHOLE, ALL = TIERS = ('core', 'whole', 'all')
_OF_MARKS = {'slow': WHOLE, 'nightly': ALL}


@dataclasses.dataclass(frozen=True)
class Asked:
  """What a session was asked to run.

  Attributes:
    tier: the tests that it runs of a folder.
    whole_files: whether it runs all of a file that is named.
    folders: the folders that are named.
    files: the files that are named.
    nodes: the tests that are named: their file, and what comes behind it.
  """
  tier: str
  whole_files: bool
  folders: frozenset[Path]
  files: frozenset[Path]
  nodes: frozenset[tuple[Path, str]]

  @classmethod
  def of(cls, config: pytest.Config) -> Asked:
    """The tier that the options and arguments of a session ask for."""
    tier = config.getoption('--tier')
    folders, files, nodes = set(), set(), set()
    for argument in config.args:
      name, _, test = argument.partition('::')
      path = (config.invocation_params.dir / name).resolve()
      if test:
        nodes.add((path, test))
      elif path.is_dir():
        folders.add(path)
      else:
        files.add(path)
    return cls(tier or WHOLE, tier is None, frozenset(folders),
               frozenset(files), frozenset(nodes))

  def takes(self, path: Path, test: str, marks: Iterable[str]) -> bool:
    """Whether it runs a test.

    Args:
      path: its file.
      test: the rest of its node id.
      marks: the names of its marks.
    """
    if any(path == p and (test + '[').startswith((name + '[', name + '::'))
           for p, name in self.nodes):
      return True
    if self.whole_files and path in self.files:
      return True
    return TIERS.index(self.tier) >= TIERS.index(_tier_of(marks))


def _tier_of(marks: Iterable[str]) -> str:
  return max((_OF_MARKS.get(mark, CORE) for mark in marks),
             key=TIERS.index,
             default=CORE)


def add_option(parser: pytest.Parser) -> None:
  parser.addoption(
      '--tier',
      choices=TIERS,
      help='core: no test marked slow or nightly, and few examples of each '
      'property; whole: no test marked nightly; all. Without it: whole, and all '
      'of a file that is named. A test that is named always runs.')


def configure(config: pytest.Config) -> None:
  config.addinivalue_line('markers', 'slow: not in the core')
  config.addinivalue_line('markers', 'nightly: neither in the core nor in the '
                          'whole')
  properties.load_profile(config.getoption('--tier') or WHOLE)


def pytest_collection_modifyitems(config: pytest.Config,
                                  items: list[pytest.Item]) -> None:
  asked = Asked.of(config)
  taken: dict[bool, list[pytest.Item]] = {True: [], False: []}
  for item in items:
    _, _, test = item.nodeid.partition('::')
    names = [mark.name for mark in item.iter_markers()]
    taken[asked.takes(item.path, test, names)].append(item)
  if taken[False]:
    config.hook.pytest_deselected(items=taken[False])
    items[:] = taken[True]
