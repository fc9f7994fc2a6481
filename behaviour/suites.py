"""Which tests judge which series."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# Not what it links to: a test's path is taken as it is, too.
TESTS = Path(__file__).absolute().parent / 'tests'


@dataclass(frozen=True)
class Suite:
  """The behaviour tests of one series.

  Attributes:
    series: its name in series.toml.
    called: what the series brings.
    tests: how the names of its tests begin.
    needs_feature: whether they use what only comes with the feature.
  """
  series: str
  called: str
  tests: tuple[str, ...]
  needs_feature: bool


SUITES = (
    Suite('dynamo-replicated-spec', 'retracing', ('retrace/',), False),
    Suite('graph-identity', 'graphs told apart', ('identity/',), False),
    Suite('v2-sharding', 'V2', ('v2/', 'retrace/replicated_spec_door_test.py'),
          True),
    Suite('sharding-priority', 'priorities', ('priority/',), True),
)


def suite_of(test: str) -> Suite:
  """The suite of a test, by its name; the longest beginning counts."""
  return max(
      SUITES,
      key=lambda suite: max(
          len(start) if test.startswith(start) else 0 for start in suite.tests))


def name_of(path: Path, node: str) -> str:
  """A test's name in reports: its file among the tests, and what is behind it.

  Args:
    path: the test's file.
    node: its id, as pytest has it.
  """
  file = path.relative_to(TESTS).as_posix()
  return '::'.join([file, *node.split('::')[1:]])
