"""Programs of several steps, in both forms, on XLA's CPU plugin."""

from __future__ import annotations

from pathlib import Path

import processes
import pytest
from torch_xla_conformance.pjrt.client import Client
from torch_xla_conformance.pjrt.formats import Format
from torch_xla_conformance.pjrt.graph import Array, Graph, Groups, Step
from torch_xla_conformance.pjrt.table import Table
import xla_plugins.xla_cpu_pjrt

_LIBRARY = str(
    Path(xla_plugins.xla_cpu_pjrt.__file__).parent / 'xla_cpu_pjrt.so')
_GROUPS = ((0, 2), (3, 1))


def _moved(form: str) -> dict[str, list[tuple[float, ...]]]:
  """What each of four devices gets, of which each gives ten times its place."""
  found: dict[str, list[tuple[float, ...]]] = {}
  kinds: dict[str, tuple[int, Groups]] = {
      'all-reduce': (2, _GROUPS),
      'reduce-scatter': (1, _GROUPS),
      'all-gather': (4, _GROUPS),
      'all-to-all': (2, _GROUPS),
      'collective-permute': (2, ((0, 1), (1, 0), (2, 3), (3, 2))),
  }
  with Client.start(
      Table.open(_LIBRARY), {'cpu_device_count': 4}, Format(form)) as client:
    steps = tuple(
        Step(kind, Array('f32', (count,)), (0,), groups)
        for kind, (count, groups) in kinds.items())
    graph = Graph((Array('f32', (2,)),), steps, (1, 2, 3, 4, 5))
    loaded = client.compile(graph, client.ids, replicas=True)
    given = [[client.put_floats([10 * d, 10 * d + 1], d)] for d in range(4)]
    results = loaded.execute(given, len(steps))
    for number, (kind, (count, _)) in enumerate(kinds.items()):
      found[kind] = [each[number].floats(count) for each in results]
  return found


def _computed(form: str) -> tuple[tuple[float, ...], ...]:
  with Client.start(
      Table.open(_LIBRARY), {'cpu_device_count': 1}, Format(form)) as client:
    two, four = Array('f32', (2,)), Array('f32', (4,))
    graph = Graph((two, two), (Step('constant', two, numbers=(0.5, 4.)),
                               Step('multiply', two,
                                    (0, 2)), Step('concatenate', four, (3, 1))),
                  (4, 3))
    given = [client.put_floats(values) for values in ([2, 3], [5, 7])]
    (joined, product), = client.compile(graph).execute([given], 2)
    return joined.floats(4), product.floats(2)


@pytest.mark.parametrize('form', ['hlo', 'mlir'])
def test_collectives_go_over_the_groups_that_are_named(form: str) -> None:
  assert processes.call(_moved, form).value == {
      'all-reduce': [(20., 22.), (40., 42.), (20., 22.), (40., 42.)],
      'reduce-scatter': [(20.,), (42.,), (22.,), (40.,)],
      'all-gather': [(0., 1., 20., 21.), (30., 31., 10., 11.),
                     (0., 1., 20., 21.), (30., 31., 10., 11.)],
      'all-to-all': [(0., 20.), (31., 11.), (1., 21.), (30., 10.)],
      'collective-permute': [(10., 11.), (0., 1.), (30., 31.), (20., 21.)],
  }


@pytest.mark.parametrize('form', ['hlo', 'mlir'])
def test_several_steps_and_results(form: str) -> None:
  assert processes.call(_computed, form).value == ((1., 12., 5., 7.), (1., 12.))
