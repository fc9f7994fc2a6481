"""A plugin's answers about its programs and devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import contextlib
import functools
from typing import Any, TypeVar

from ..case import Case, expect, NotApplicable
from ..context import Context
from ..pjrt import executable
from ..pjrt.buffer import destroy
from ..pjrt.graph import elementwise
from ..pjrt.table import MissingError, PjrtError, read_values
from ..shared.hlo import messages
from .checks import skipped_if

_T = TypeVar('_T')
_COUNT = 1024
_BYTES = 4 * _COUNT


@contextlib.contextmanager
def _sum(context: Context) -> Iterator[int]:
  """The executable of a sum."""
  with context.client() as client:
    with client.compile(elementwise((_COUNT,))).executable() as compiled:
      yield compiled


def _optimized(context: Context, part: str) -> str:
  """The compiled program: what readback and Shardy's checks rest on."""
  with _sum(context) as compiled:
    code, form = executable.optimized_program(context.table, compiled)
  expect(bool(code), 'PJRT_Executable_OptimizedProgram gives no bytes')
  if form in messages.HLO_FORMATS:
    try:
      _, module = messages.parse_compiled(code, form)
    except ValueError as e:
      expect(False, f'what it gives as {form} cannot be read: {e}')
    expect(
        len(module.host_program_shape.parameters) == 2,
        'the compiled program of two parameters tells '
        f'{len(module.host_program_shape.parameters)}')
  else:
    expect(
        form == 'mlir', f'it gives the format {form!r}; hlo, '
        'hlo_with_config and mlir are read')
  return f'{form}, {len(code):,} bytes'


def _outputs(context: Context, part: str) -> str:
  with _sum(context) as compiled:
    count = context.table.call(
        'Executable_NumOutputs', executable=compiled).num_outputs
  expect(count == 1, f'a program with one result is said to have {count}')
  return '1 output'


def _asked(context: Context, function: str, read: Callable[[Any], _T]) -> _T:
  """What `read` takes out of the answer of a function about a compiled sum."""
  context.needs(function)
  with _sum(context) as compiled, skipped_if('UNIMPLEMENTED'):
    return read(context.table.call(function, executable=compiled))


def _cost(context: Context, part: str) -> str:
  costs = _asked(context, 'Executable_GetCostAnalysis',
                 lambda got: read_values(got.properties, got.num_properties))
  flops = costs.get('flops')
  if flops is None:
    raise NotApplicable(f'it tells no flops, but {", ".join(costs)}')
  expect(flops >= _COUNT, f'{_COUNT} additions are said to be {flops} flops')
  return f'{flops:g} flops, {len(costs)} figures'


def _compiled_memory(context: Context, part: str) -> str:
  arguments, outputs = _asked(
      context, 'Executable_GetCompiledMemoryStats', lambda answer:
      (answer.argument_size_in_bytes, answer.output_size_in_bytes))
  for name, actual, wanted in (('arguments', arguments, 2 * _BYTES),
                               ('outputs', outputs, _BYTES)):
    expect(actual >= wanted,
           f'{name} of {wanted} bytes are said to take {actual}')
  return f'{arguments} bytes of arguments, {outputs} of outputs'


def _memory(context: Context, part: str) -> str:
  """Statistics move with what is allocated."""
  with context.client() as client:
    try:
      before = client.bytes_in_use()
    except (PjrtError, MissingError) as e:
      raise NotApplicable(f'the plugin does not tell: {e}') from e
    buffers = [client.put_floats(range(_COUNT)) for _ in range(16)]
    during = client.bytes_in_use()
    destroy(buffers)
    after = client.bytes_in_use()
  expect(
      0 <= before <= during - 16 * _BYTES,
      f'{16 * _BYTES} bytes were allocated, and the bytes in use went from '
      f'{before} to {during}')
  expect(
      after < during, f'all was freed, and {after} bytes are in use as '
      f'{during} were before')
  return f'{before} -> {during} -> {after} bytes'


def _sizes(context: Context, part: str) -> str:
  with context.client() as client:
    buffer = client.put_floats(range(_COUNT))
    dims, nbytes = buffer.dims, buffer.nbytes
    room = context.table.call(
        'Buffer_ToHostBuffer', src=buffer.address).dst_size
  expect(dims == (_COUNT,), f'a buffer of f32[{_COUNT}] says dimensions {dims}')
  expect(nbytes >= _BYTES, f'a buffer of {_BYTES} bytes says {nbytes}')
  expect(room == _BYTES, f'{_BYTES} bytes are said to take {room} on the host')
  return f'{nbytes} bytes on the device'


_uncompiled = functools.partial(Case, compiles=False)
CASES: tuple[Case, ...] = (
    Case(
        'queries.optimized_program', 'results cannot be read back in their '
        'layout, and Shardy cannot be trusted', _optimized),
    Case('queries.outputs', 'results are counted wrongly', _outputs),
    _uncompiled('queries.buffers', 'memory is reckoned wrongly', _sizes),
    Case('queries.cost_analysis', 'profilers and the audit tell wrong flops',
         _cost),
    Case('queries.compiled_memory', 'nobody can say whether a program fits',
         _compiled_memory),
    _uncompiled('queries.memory', 'nobody can say how much memory is free',
                _memory),
)
