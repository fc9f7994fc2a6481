"""The page of explanations in a real browser."""

import browsing
import pytest

pytest.importorskip('jaxlib', reason='needs jaxlib: MLIR')
# pylint: disable=wrong-import-position
from small_programs import ADD, explained_of
from torch_xla.shardy.explanation import Explanation, page

ENVIRONMENT = {}  # Beside the tests that need no child.


@pytest.fixture(name='explained', scope='module')
def explained_fixture() -> Explanation:
  return explained_of(ADD, '{"x"}p0, {}', '{"y"}p1, {"x"}p0')


def test_conflicts_open_to_their_ways(explained):
  source = page.html([explained, explained])
  assert source.count('<details') == len(explained.conflicts) > 0
  assert f'{len(explained.conflicts)} as above' in source
  assert browsing.needs_nothing(source)
  shown = browsing.text_of(source)
  first = explained.conflicts[0]
  names = [
      explained.propagation.origins[n].name for n in (first.loser, first.winner)
  ]
  assert all(f'{name} (' in shown for name in names)
  assert '&rarr; <span class="tag">add.1</span>' in source


@pytest.mark.slow
def test_page_in_a_browser(explained, tmp_path):
  written = tmp_path / 'why.html'
  written.write_text(
      page.html([explained]).replace('<details', '<details open'))
  said = browsing.probed_on_a_phone(browsing.find(), written)
  assert int(said['scroll']) <= int(said['client'])
