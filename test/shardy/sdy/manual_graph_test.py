"""How operations are cut into manual regions, and in which order these run."""

import hypothesis
from hypothesis import strategies as st
import properties
import pytest
from torch_xla.shardy.sdy import manual_graph
from torch_xla.shardy.sdy.manual import ManualShardingError
from torch_xla.shardy.sdy.manual_graph import Node, Role

_ROLES = {'b': Role.BEGIN, 'e': Role.END, 'm': Role.MANUAL, 'g': Role.GIVEN}


def _cut(text: str):
  """The regions of lines `name: operands`; the first letter tells the role."""
  nodes = []
  for line in text.split(';'):
    name, _, operands = line.strip().partition(':')
    role = Role.RESULTS if name == 'out' else _ROLES.get(name[0], Role.PLAIN)
    nodes.append(Node(name, tuple(operands.split()), role, name))
  cut = manual_graph.cut(nodes)
  return nodes, cut


def _shown(text: str) -> list[str]:
  _, cut = _cut(text)
  return [
      f'{stage}: {" ".join(r.members)} | {" ".join(r.ends)} | '
      f'{" ".join(r.left)}'
      for stage in sorted(cut.regions)
      for r in cut.regions[stage]
  ]


@pytest.mark.parametrize(
    'text, regions',
    [
        ('a:; n: a', []),
        ('a:; b: a; n: b; e: n; out: e', ['0: b n | e | ']),
        # What is not connected are two, and what is connected one.
        ('a:; b1: a; b2: a; e1: b1; e2: b2', ['0: b1 | e1 | ', '0: b2 | e2 | ']
        ),
        ('a:; b1: a; b2: a; n: b1 b2; e1: n; e2: b2', ['0: b1 b2 n | e1 e2 | '
                                                      ]),
        ('a:; b1: a; e1: b1; b2: e1; e2: b2',
         ['0: b1 | e1 | ', '1: b2 | e2 | ']),
        # It needs its own result.
        ('a:; b1: a; e1: b1; b2: e1; n: b1 b2; e2: n',
         ['0: b1 | e1 | b1', '1: b2 n | e2 | ']),
        # Put off until it is used; what has an end, or is a result, is not.
        ('a:; b1: a; e1: b1; b3: a; k: b3; b2: e1; n: b2 k; e2: n',
         ['0: b1 | e1 | ', '1: b3 k b2 n | e2 | ']),
        ('a:; b1: a; e1: b1; b3: a; b2: e1; n: b2 b3; out: n b3',
         ['0: b1 | e1 | ', '0: b3 |  | b3', '1: b2 n |  | n']),
        # Without a beginning.
        ('m: ; n: m; e: n', ['0: m n | e | ']),
        ('g: ; n: g; out: n g', ['0: n |  | n']),
    ])
def test_regions(text, regions):
  assert _shown(text) == regions


def test_region_within_a_region():
  with pytest.raises(ManualShardingError, match='^b2 begins a manual region'):
    _cut('a:; b1: a; n: b1; b2: n')


@st.composite
def _programs(draw) -> list[Node[int]]:
  nodes: list[Node[int]] = []
  manual: list[int] = []
  other: list[int] = [0]
  nodes.append(Node(0, (), Role.PLAIN, ''))
  for key in range(1, draw(st.integers(2, 25))):
    kind = draw(st.sampled_from(('begin', 'end', 'member', 'member', 'plain')))
    if kind != 'begin' and kind != 'plain' and not manual:
      kind = 'begin'
    if kind == 'begin':
      nodes.append(Node(key, (draw(st.sampled_from(other)),), Role.BEGIN, ''))
      manual.append(key)
    elif kind == 'end':
      nodes.append(Node(key, (draw(st.sampled_from(manual)),), Role.END, ''))
      other.append(key)
    elif kind == 'member':
      uses = draw(st.lists(st.sampled_from(manual), min_size=1, max_size=3))
      uses += draw(st.lists(st.sampled_from(other), max_size=2))
      nodes.append(Node(key, tuple(uses), Role.PLAIN, ''))
      manual.append(key)
    else:
      uses = draw(st.lists(st.sampled_from(other), max_size=2))
      nodes.append(Node(key, tuple(uses), Role.PLAIN, ''))
      other.append(key)
  key = len(nodes)
  results = draw(st.lists(st.integers(0, key - 1), max_size=3))
  return [*nodes, Node(key, tuple(results), Role.RESULTS, '')]


@properties.examples(300)
@hypothesis.given(_programs())
def test_regions_can_run_one_after_the_other(nodes):
  """Each stage has what is not manual, in order, then the regions."""
  cut = manual_graph.cut(nodes)
  by_key = {node.key: node for node in nodes}
  region_of = {}
  for stage, regions in cut.regions.items():
    for region in regions:
      assert region.members == sorted(region.members)
      for member in region.members:
        assert cut.stages[member] == stage and member not in region_of
        region_of[member] = region
  assert set(region_of) == cut.manual
  # What a region hands over: to its ends, or as it is.
  done: set[int] = set()
  for stage in sorted(set(cut.stages.values())):
    for node in nodes:
      if cut.stages[node.key] == stage and node.key not in cut.manual:
        for operand in node.operands:
          assert operand in done
          if operand in cut.manual:
            region = region_of[operand]
            assert (node.key in region.ends
                    if node.role is Role.END else operand in region.left)
        done.add(node.key)
    for region in cut.regions.get(stage, ()):
      for member in region.members:
        for operand in by_key[member].operands:
          if region_of.get(operand) is not region:
            assert operand in done
            assert operand not in cut.manual or operand in region_of[
                operand].left
      done.update(region.members)
  assert len(done) == len(nodes)
