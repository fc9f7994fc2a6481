"""What a plugin tells of its programs and devices."""

from __future__ import annotations

from ..case import Case, expect, NotApplicable
from ..context import Context
from ..pjrt import client as clients
from ..pjrt.numbers import destroy, floats
from ..pjrt.programs import Elementwise
from ..pjrt.table import MissingError, PjrtError, read_values
from ...hlo import messages

_COUNT = 1024
_BYTES = 4 * _COUNT


def _optimized(context: Context, part: str) -> str:
  """The compiled program: what readback and Shardy's checks rest on."""
  del part
  with context.client() as client:
    loaded = client.compile(context.program(Elementwise((_COUNT,)), client))
    with loaded.executable() as executable:
      code, form = clients.optimized_program(context.table, executable)
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
    loaded.destroy()
  return f'{form}, {len(code):,} bytes'


def _outputs(context: Context, part: str) -> str:
  del part
  with context.client() as client:
    loaded = client.compile(context.program(Elementwise((_COUNT,)), client))
    count = loaded.num_outputs()
    loaded.destroy()
  expect(count == 1, f'a program with one result is said to have {count}')
  return '1 output'


def _cost(context: Context, part: str) -> str:
  del part
  context.needs('Executable_GetCostAnalysis')
  with context.client() as client:
    loaded = client.compile(context.program(Elementwise((_COUNT,)), client))
    try:
      with loaded.executable() as executable:
        told = context.table.call(
            'Executable_GetCostAnalysis', executable=executable)
        costs = read_values(told.properties, told.num_properties)
    except PjrtError as e:
      if e.code == 'UNIMPLEMENTED':
        raise NotApplicable(str(e)) from e
      raise
    finally:
      loaded.destroy()
  flops = costs.get('flops')
  if flops is None:
    raise NotApplicable(f'it tells no flops, but {", ".join(costs)}')
  expect(flops >= _COUNT, f'{_COUNT} additions are said to be {flops} flops')
  return f'{flops:g} flops, {len(costs)} figures'


def _compiled_memory(context: Context, part: str) -> str:
  del part
  context.needs('Executable_GetCompiledMemoryStats')
  with context.client() as client:
    loaded = client.compile(context.program(Elementwise((_COUNT,)), client))
    try:
      with loaded.executable() as executable:
        told = context.table.call(
            'Executable_GetCompiledMemoryStats', executable=executable)
    except PjrtError as e:
      if e.code == 'UNIMPLEMENTED':
        raise NotApplicable(str(e)) from e
      raise
    finally:
      loaded.destroy()
  for name, found, wanted in (('arguments', told.argument_size_in_bytes,
                               2 * _BYTES),
                              ('outputs', told.output_size_in_bytes, _BYTES)):
    expect(found >= wanted,
           f'{name} of {wanted} bytes are said to take {found}')
  return (f'{told.argument_size_in_bytes} bytes of arguments, '
          f'{told.output_size_in_bytes} of outputs')


def _memory(context: Context, part: str) -> str:
  """Statistics move with what is allocated."""
  del part
  with context.client() as client:
    try:
      before = client.bytes_in_use()
    except (PjrtError, MissingError) as e:
      raise NotApplicable(f'the plugin does not tell: {e}') from e
    buffers = [client.put(floats(range(_COUNT))) for _ in range(16)]
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
  del part
  with context.client() as client:
    buffer = client.put(floats(range(_COUNT)))
    told = context.table.call('Buffer_Dimensions', buffer=buffer.address)
    dims = clients.dims_of(told)
    nbytes = buffer.nbytes
    buffer.destroy()
  expect(dims == (_COUNT,), f'a buffer of f32[{_COUNT}] says dimensions {dims}')
  expect(nbytes >= _BYTES, f'a buffer of {_BYTES} bytes says {nbytes}')
  return f'{nbytes} bytes on the device'


def cases() -> tuple[Case, ...]:
  return (
      Case(
          'queries.optimized_program', 'results cannot be read back in their '
          'layout, and Shardy cannot be trusted', _optimized),
      Case('queries.outputs', 'results are counted wrongly', _outputs),
      Case('queries.buffers', 'memory is reckoned wrongly', _sizes),
      Case('queries.cost_analysis', 'profilers and the audit tell wrong flops',
           _cost),
      Case('queries.compiled_memory', 'nobody can say whether a program fits',
           _compiled_memory),
      Case('queries.memory', 'nobody can say how much memory is free', _memory),
  )
