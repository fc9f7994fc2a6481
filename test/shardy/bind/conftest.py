"""What the tests of bindings share: see `sections`."""

from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite('sections')

from sections import Run, Ways  # pylint: disable=wrong-import-position


@pytest.fixture(scope='module', name='ways')
def ways_fixture(request: pytest.FixtureRequest) -> Ways:
  """The ways of the sections that the module's tests ask for."""
  items = (i for i in request.session.items if i.module is request.module)
  parameters = (i.callspec.params for i in items if hasattr(i, 'callspec'))
  return Ways({p['section'] for p in parameters if 'section' in p})


@pytest.fixture(name='run')
def run_fixture() -> Iterator[Run]:
  """Runs a section, for a test with an environment."""
  with Run.start() as run:
    yield run
