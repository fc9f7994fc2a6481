"""Programs with many arguments and many results, as large models have them."""

from __future__ import annotations

from collections.abc import Sequence

from ..case import Case, Failure, Tier
from ..context import Context
from ..pjrt.client import Client
from ..pjrt.graph import Array, Graph, Step
from ..pjrt.numbers import destroy, floats, read_floats

# One more than where a table of a fixed size, or a counter, may end.
_COUNTS = (65, 257, 1025, 4097)
# A concatenation takes compilers a time that grows with the square.
_JOINED = 1025
_ONE = Array('f32', (1,))


def _arguments(context: Context, part: str) -> str:
  """Each of `count` arguments has its place in one result."""
  count = int(part)
  joined = Array('f32', (count,))
  graph = Graph((_ONE,) * count,
                (Step('concatenate', joined, tuple(range(count))),), (count,))
  actual, = _run(context.kept_client(), context.format, graph, 1)
  _check(actual, tuple(float(i) for i in range(count)), 'argument')
  return f'{count} arguments of one program'


def _results(context: Context, part: str) -> str:
  """As many results, each of two arguments; but the most on one device."""
  count = int(part)
  client = context.kept_client()
  graph = Graph(
      (_ONE,) * count,
      tuple(Step('add', _ONE, (i, (i + 1) % count)) for i in range(count)),
      tuple(range(count, 2 * count)))
  devices = 1 if count == _COUNTS[-1] else len(client.ids)
  for device, actual in enumerate(_run(client, context.format, graph, devices)):
    first = device * count
    _check(actual,
           tuple(float(2 * first + i + (i + 1) % count) for i in range(count)),
           f'device {client.ids[device]}: result')
  return f'{count} arguments and results on {devices} device(s)'


def _run(client: Client, form: str, graph: Graph,
         devices: int) -> list[tuple[float, ...]]:
  """The numbers in the results of each device, one after the other.

  The arguments are whole numbers, on each device those after the last one's.
  """
  count = len(graph.parameters)
  loaded = client.compile(graph.program(form, client.ids[:devices]))
  arguments = [[
      client.put(floats([device * count + i]), device) for i in range(count)
  ] for device in range(devices)]
  outputs = loaded.execute(arguments, len(graph.results))
  length = graph.values[graph.results[0]].count
  results = [
      tuple(
          number
          for buffer in of_device
          for number in read_floats(buffer, length))
      for of_device in outputs
  ]
  for buffers in (*arguments, *outputs):
    destroy(buffers)
  loaded.destroy()
  return results


def _check(actual: Sequence[float], expected: Sequence[float],
           label: str) -> None:
  wrong = [i for i, (a, b) in enumerate(zip(actual, expected)) if a != b]
  if wrong:
    first = wrong[0]
    whose = [i for i, value in enumerate(expected) if value == actual[first]]
    raise Failure(
        f'{len(wrong)} of {len(expected)} are wrong: {label} [{first}] is '
        f'[{actual[first]}] in place of [{expected[first]}]' +
        (f'; that is what {label} {whose} has to be' if whose else ''))


CASES: tuple[Case, ...] = (
    Case('counts.arguments', 'models of many weights get the wrong ones',
         _arguments, tuple(str(c) for c in _COUNTS if c <= _JOINED)),
    Case(
        'counts.results',
        'models of many weights get the wrong ones, or lose updates',
        _results,
        tuple(map(str, _COUNTS)),
        part_tiers={str(_COUNTS[-1]): Tier.WHOLE},
        seconds=120),
)
