"""The programs of the priority series' tests run as StableHLO here, too."""

from collections.abc import Iterator
from pathlib import Path
import sys

import pytest

for _folder in ('bind', 'rewrite', 'v2'):
  sys.path.append(str(Path(__file__).resolve().parents[1] / _folder))
pytest.register_assert_rewrite('sections', 'vendor')

from sections import Run  # pylint: disable=wrong-import-position


@pytest.fixture(name='run')
def run_fixture() -> Iterator[Run]:
  """Runs a section, for a test with an environment."""
  with Run.start() as run:
    yield run
