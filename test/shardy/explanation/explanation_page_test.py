"""The page of explanations in a real browser, and the graph for a viewer."""

import browsing
import pytest

pytest.importorskip('jaxlib', reason='needs jaxlib: MLIR')
# pylint: disable=wrong-import-position
from small_programs import ADD, explained_of
from torch_xla.shardy.explanation import Explanation, graph, page

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


def test_graph_has_each_edge_and_sharding(explained):
  one, = graph.collection([explained])['graphs']
  nodes = {node['id']: node for node in one['nodes']}
  add = nodes['o0']
  assert [nodes[e['sourceNodeId']]['label'] for e in add['incomingEdges']
         ] == ['a', 'b']
  attributes = {a['key']: a['value'] for a in add['attrs']}
  assert attributes['shape'] == 'f32[8,8]'
  assert attributes['sharding'] == "('x', None)"
  assert attributes['x of'] == 'a'
  assert add['outputsMetadata'] == [dict(id='0', attrs=add['attrs'])]
