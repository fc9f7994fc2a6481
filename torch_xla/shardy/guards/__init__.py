"""Guards: what must not happen in a block or a function, and who did it.

>>> with guards.no_recompile():
...   train(batches)

Each is a context and a decorator. What is beyond `allowed` ends the block with
an error; with action 'log' it is a warning.

A guard is for the process: what other threads do meanwhile counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
import contextlib
import functools
import inspect
import logging
from typing import Any, Optional, ParamSpec, TypeVar

from . import implicit, program_change
from .. import door
from ..callers import Callers
from ..compile import ledger
from ..compile.ledger import IncomingProgram

logger = logging.getLogger(__name__)

_Function = TypeVar('_Function', bound=Callable[..., Any])
_Arguments = ParamSpec('_Arguments')

_ACTIONS = ('raise', 'log')
_COUNTERS = {
    'UncachedCompile': 'lazy graphs traced and compiled',
    'CachedCompile': 'lazy graphs traced again and found compiled',
    'DynamoExtractCompiledGraph': 'graphs traced for torch.compile',
}


class GuardError(RuntimeError):
  """Something happened that a guard was there to rule out."""


class RecompileError(GuardError):
  """A program was compiled under `no_recompile`."""


class ImplicitCollectiveError(GuardError):
  """Annotations that disagree move bytes under `no_implicit_collectives`."""


class TracingError(GuardError):
  """A graph was traced under `no_tracing`."""


class _Guard(contextlib.ContextDecorator):
  """A context, or a decorator of what runs when it is called."""

  def __init__(self, make: Callable[[],
                                    contextlib.AbstractContextManager[None]]):
    self._make = make
    self._entered: list[contextlib.AbstractContextManager[None]] = []

  def __enter__(self) -> None:
    self._entered.append(self._make())
    self._entered[-1].__enter__()

  def __exit__(self, *error: Any) -> Optional[bool]:
    return self._entered.pop().__exit__(*error)

  def __call__(self, function: _Function) -> _Function:
    if (inspect.iscoroutinefunction(function) or
        inspect.isgeneratorfunction(function) or
        inspect.isasyncgenfunction(function)):
      raise TypeError(
          f'{function.__qualname__} does not run when it is called, so that a '
          'guard around the call sees nothing of it: use the guard with `with` '
          'in its body')
    return super().__call__(function)


def _guard(
    function: Callable[_Arguments,
                       Iterator[None]]) -> Callable[_Arguments, _Guard]:
  context = contextlib.contextmanager(function)

  @functools.wraps(function)
  def make_guard(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Guard:
    return _Guard(functools.partial(context, *args, **kwargs))

  return make_guard


@_guard
def no_recompile(allowed: int = 0, action: str = 'raise') -> Iterator[None]:
  """Forbids compiles in the block, but for the first `allowed` ones.

  The error comes at the end of the block, and says of each program what differs
  from the nearest one before and which line asked for it. The compile itself is
  let through: torch_xla loses what is pending with a refused one, and fails at
  each later sync. A program that `torch_xla.shardy.cache` has on disk counts,
  too, so that the guard does not depend on what is there.

  Raises:
    RecompileError: at the end of the block.
    DoorError: the mode is off, so that no program is seen.
    ValueError: `allowed` is negative, or `action` is not known.
  """
  _check(allowed, action)
  door.check_door()
  callers = Callers()
  recompiles: list[str] = []
  count = 0

  def look(program: IncomingProgram, earlier: tuple[IncomingProgram,
                                                    ...]) -> None:
    nonlocal count
    count += 1
    if count > allowed:
      recompiles.append(
          _recompiled(program, earlier, callers.now(), count, allowed))
      if action == 'log':
        _act(RecompileError, action, recompiles[-1:])

  with ledger.process_ledger.watch(look):
    yield
  if action == 'raise':
    _act(RecompileError, action, recompiles)


@_guard
def no_implicit_collectives(min_bytes: int = 1,
                            allowed: int = 0,
                            action: str = 'raise') -> Iterator[None]:
  """Forbids annotations that disagree so that `min_bytes` or more move.

  Looks at the programs that are compiled in the block, when it ends: put it
  around a first step. Bytes are those that Shardy plans at the operations
  where the two meet, of one layer where several are alike. What moves where no
  two annotations disagree, as the sum over a split dimension, is no finding.

  Raises:
    ImplicitCollectiveError: at the end of the block.
    DoorError: the mode is not Shardy's, or jaxlib is missing.
    ValueError: a number is negative, or `action` is not known.
  """
  _check(allowed, action)
  if min_bytes < 0:
    raise ValueError(f'min_bytes={min_bytes}: a size is not negative')
  from ..stablehlo import dialects
  dialects.check_installed('Shardy is asked by way of StableHLO')
  door.check_door()
  with ledger.process_ledger.collect() as programs:
    yield
  if not programs:
    logger.warning('no_implicit_collectives: no program was compiled in the '
                   'block, so none was looked at; put it around a first step')
  _act(ImplicitCollectiveError, action,
       list(implicit.moved(programs, min_bytes))[allowed:])


@_guard
def no_tracing(allowed: int = 0, action: str = 'raise') -> Iterator[None]:
  """Forbids tracing a lazy graph in the block: all in it runs compiled.

  For a loop that `torch.compile` has to carry. Counts graphs at the end of the
  block, of which `allowed` may be.

  Raises:
    TracingError: at the end of the block.
    ValueError: `allowed` is negative, or `action` is not known.
  """
  from torch_xla.debug import metrics
  _check(allowed, action)

  def counts() -> dict[str, int]:
    names = [*_COUNTERS
            ] + [n for n in metrics.counter_names() if n.startswith('xla::')]
    return {name: metrics.counter_value(name) or 0 for name in names}

  before = counts()
  yield
  more = {
      name: count - before.get(name, 0)
      for name, count in counts().items()
      if count > before.get(name, 0)
  }
  graphs = sum(more.get(name, 0) for name in _COUNTERS)
  if graphs > allowed:
    totals = ', '.join(
        f'{more[name]} {what}' for name, what in _COUNTERS.items()
        if name in more)
    operations = ', '.join(
        f'{count} {name}' for name, count in sorted(more.items())
        if name not in _COUNTERS)
    _act(TracingError, action, [
        f'no_tracing(allowed={allowed}): {totals}; lazily dispatched: '
        f'{operations or "nothing"}'
    ])


def _recompiled(program: IncomingProgram, earlier: tuple[IncomingProgram, ...],
                lines: tuple[str, ...], count: int, allowed: int) -> str:
  where = f', asked for at {lines[0]}' if lines else ''
  text = [
      f'no_recompile(allowed={allowed}): program {count} of the block, '
      f'{program.name or "(StableHLO)"}{where}'
  ]
  found = program_change.nearest(program, earlier)
  if found is None:
    text.append('  it is the first of the process')
  else:
    other, changes = found
    text.append(f'  nearest before: {other.name or "(StableHLO)"}')
    text += [f'  {line}' for line in changes]
  return '\n'.join(text)


def _act(kind: type[GuardError], action: str, found: list[str]) -> None:
  if found:
    text = '\n'.join(found)
    if action == 'raise':
      raise kind(text)
    logger.warning('%s', text)


def _check(allowed: int, action: str) -> None:
  if allowed < 0:
    raise ValueError(f'allowed={allowed}: a number of events is not negative')
  if action not in _ACTIONS:
    raise ValueError(f'action={action!r} is none of {", ".join(_ACTIONS)}')
