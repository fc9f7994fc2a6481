"""What the tests of bindings share: see `sections`."""

from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite('sections')

# pylint: disable=wrong-import-position
from sections import Run, Way, Ways
import tiers


@pytest.fixture(scope='module', name='ways')
def ways_fixture(request: pytest.FixtureRequest) -> Ways:
  """The ways of the sections that the module's tests ask for."""
  items = (i for i in request.session.items if i.module is request.module)
  parameters = (i.callspec.params for i in items if hasattr(i, 'callspec'))
  # With weights as well where they are the point, and at night.
  asked = tiers.Asked.of(request.config)
  with_weights = (
      request.module.__name__ in ('lazy_test', 'weights_test') or
      asked.takes(request.path, '', ['nightly']))
  return Ways({p['section'] for p in parameters if 'section' in p},
              [way for way in Way if way is not Way.WEIGHTS or with_weights])


@pytest.fixture(name='run')
def run_fixture() -> Iterator[Run]:
  """Runs a section, for a test with an environment."""
  with Run.start() as run:
    yield run
