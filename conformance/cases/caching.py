"""Compiled programs stored and loaded again, and compiled twice."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import tempfile
from typing import Any

from ..case import Case, expect, Needs, NotApplicable
from ..context import Context
from ..pjrt.client import Client
from ..pjrt.executable import serialize
from ..pjrt.graph import Array, elementwise, Graph, Step
from ..pjrt.numbers import destroy, floats, read_floats
from ..torch_modules import metrics, torch, torch_xla, xs
from ..torch_session import annotated, check_equal, DATA, MODEL, numbers

_VALUES = tuple(float(i) for i in range(16))


def _reload(context: Context, part: str) -> str:
  """Loads a stored program in the same client, or in one started after it."""
  if not context.capabilities.get('serialization'):
    raise NotApplicable('the plugin does not serialise programs')
  stored = {}
  with context.client() as client:
    for opcode in ('add', 'multiply'):
      loaded = client.compile(
          context.program(elementwise((16,), opcode=opcode), client))
      with loaded.executable() as executable:
        stored[opcode] = serialize(context.table, executable)
      loaded.destroy()
    if part == 'same client':
      _check_stored(client, stored)
  if part == 'next client':
    with context.client() as client:
      _check_stored(client, stored)
  return f'{len(stored["add"]):,} bytes'


def _check_stored(client: Client, stored: dict[str, bytes]) -> None:
  expected = {
      'add': tuple(2 * v for v in _VALUES),
      'multiply': tuple(v * v for v in _VALUES),
  }
  for opcode, data in stored.items():
    loaded = client.load(data)
    left, right = client.put(floats(_VALUES)), client.put(floats(_VALUES))
    (result,), = loaded.execute([[left, right]])
    actual = read_floats(result, 16)
    expect(
        actual == expected[opcode],
        f'{opcode}, loaded again, gives {actual} in place of '
        f'{expected[opcode]}')
    destroy((left, right, result))
    loaded.destroy()


def _same(context: Context, part: str) -> str:
  """One program, compiled again and again, gives the same numbers."""
  results = set()
  with context.client() as client:
    left, right = client.put(floats(_VALUES)), client.put(floats(_VALUES))
    for _ in range(5):
      loaded = client.compile(context.program(elementwise((16,)), client))
      (result,), = loaded.execute([[left, right]])
      results.add(read_floats(result, 16))
      result.destroy()
      loaded.destroy()
    destroy((left, right))
  expect(results == {tuple(2 * v for v in _VALUES)},
         f'five compilations of one program gave {sorted(results)}')
  return '5 compilations'


def _names(context: Context, part: str) -> str:
  """Two programs of one name, type and size live side by side."""
  client = context.kept_client()
  array = Array('f32', (16,))
  opcodes = {'subtract': 0., 'multiply': 1.}  # Of as many letters.
  programs = {
      opcode:
          client.compile(
              Graph((array, array), (Step(opcode, array, (0, 1)),),
                    (2,)).program(context.format, client.ids[:1]))
      for opcode in opcodes
  }
  operand = client.put(floats([1.] * 16))
  for opcode, loaded in programs.items():
    (result,), = loaded.execute([[operand, operand]])
    actual = read_floats(result, 16)
    expect(
        actual == (opcodes[opcode],) * 16,
        f'of two programs of one name {opcode} gives {actual} in place of '
        f'{opcodes[opcode]}')
    result.destroy()
    loaded.destroy()
  operand.destroy()
  return ' and '.join(opcodes)


def _retrace(context: Context, part: str) -> str:
  """A step is compiled once, lazily and by torch.compile."""
  session = context.torch()
  mesh = session.grid()
  weight = annotated(session.to_device(numbers(16, 8)), mesh, (MODEL, None))

  def step(batch: torch.Tensor) -> torch.Tensor:
    return torch.relu(batch @ weight).sum(1)

  run = step if part == 'lazy' else torch.compile(step, backend='openxla')
  compiled = []
  for number in range(6):
    host = numbers(4, 16, start=number)
    batch = session.to_device(host)
    if part == 'lazy':
      xs.mark_sharding(batch, mesh, (DATA, None))
    result = run(batch)
    torch_xla.sync(wait=True)
    check_equal(result.cpu(),
                torch.relu(host @ numbers(16, 8)).sum(1), f'step {number}')
    compiled.append(metrics.counter_value('UncachedCompile') or 0)
  more = compiled[-1] - compiled[2]
  expect(
      more == 0, f'{more} program(s) were compiled in the last three of six '
      'steps that are the same')
  return f'{compiled[-1]} programs for 6 steps'


def _apart(context: Context, part: str) -> str:
  """Graphs that differ in where a tensor is used have programs of their own."""
  session = context.torch()
  left, right = numbers(4, start=6), numbers(4, start=2)
  for f in (lambda a, b: (a - b) * (a - 2 * b), lambda a, b: (a - b) *
            (b - 2 * a)):
    result = f(session.to_device(left), session.to_device(right))
    torch_xla.sync(wait=True)
    check_equal(result.cpu(), f(left, right), 'the product of differences')
  return '2 graphs'


def _cache(context: Context, part: str) -> str:
  """Checks that a second process loads what the first one has stored."""
  if not context.capabilities.get('serialization'):
    raise NotApplicable('the plugin does not serialise programs')
  with tempfile.TemporaryDirectory(prefix='conformance-') as folder:
    # No runtime is up yet, so a fork is as good as a new process.
    forks = multiprocessing.get_context('fork')
    with concurrent.futures.ProcessPoolExecutor(1, forks) as other:
      other.submit(_step_with_cache, context, folder).result()
    report = _step_with_cache(context, folder)
  expect(report.loaded > 0 and not report.damaged,
         f'nothing was loaded of what another process stored: {report}')
  return f'{report.loaded} loaded, {report.missing} compiled'


def _step_with_cache(context: Context, folder: str) -> Any:
  """Computes, and returns the report of the cache."""
  from torch_xla.shardy import cache
  store = cache.use(folder)
  session = context.torch()
  host = numbers(16, 8)
  tensor = session.to_device(host)
  xs.mark_sharding(tensor, session.grid(), (DATA, None))
  result = tensor @ session.to_device(numbers(8, 4))
  torch_xla.sync(wait=True)
  check_equal(result.cpu(), host @ numbers(8, 4), 'a product')
  return store.report()


CASES: tuple[Case, ...] = (
    Case('caching.reload', 'a program from the cache is another one', _reload,
         ('same client', 'next client')),
    Case(
        'caching.same', 'hosts, or runs, that compile the same program '
        'compute different things', _same),
    Case('caching.names', 'a program is another one of the same name', _names),
    Case(
        'caching.retrace',
        'each step is compiled again',
        _retrace, ('lazy', 'torch.compile'),
        devices=2,
        seconds=120,
        needs=Needs.TORCH_XLA),
    Case(
        'caching.apart', 'wrong numbers, where a graph is like one before '
        'but for which tensor it uses where: a fault of torch_xla, if the '
        'doctor warns of it',
        _apart,
        needs=Needs.TORCH_XLA),
    Case(
        'caching.cache',
        'each start of a training compiles all again',
        _cache,
        devices=2,
        needs=Needs.MODES),
)
