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
    environment: which mode of `torch_xla_form` its tests need; empty if they
      use nothing that only comes with the feature, and so always run.
  """
  series: str
  called: str
  tests: tuple[str, ...]
  environment: str = ''


SUITES = (
    Suite('dynamo-replicated-spec', 'retracing', ('retrace/',)),
    Suite('graph-identity', 'graphs told apart', ('identity/',)),
    Suite('v2-sharding', 'V2', ('v2/', 'retrace/replicated_spec_door_test.py'),
          'V2'),
    Suite('sharding-priority', 'priorities', ('priority/',), 'SHARDY'),
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
