"""The capabilities of a plugin, measured before it is judged.

Each part is a probe: one that crashes or hangs is a finding, and what it would
have found is missing; the others go on in another process. That the plugin
cannot do a thing is an answer, and no finding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
import contextlib
import json
from typing import Any

from .shared.sharding.text import parse_sharding
from .case import Case, NotApplicable
from .context import Context
from .pjrt import executable, formats, structs
from .pjrt.client import Client, describe, pending_buffer
from .pjrt.executable import Loaded
from .pjrt.formats import Format
from .pjrt.graph import elementwise
from .pjrt.programs import HLO, MLIR, Program
from .pjrt.sdy_programs import with_attributes, with_dialect
from .pjrt.table import LoadError, MissingError, PjrtError, pointers, text
from .result import CAPABILITIES

# Characters that are kept of an error, which may hold a whole program.
_LONGEST = 500
_COUNT = 8

Found = dict[str, Any]


def _table(context: Context) -> Found:
  table = context.table
  return {
      'library': context.library,
      'api_version': list(table.version),
      'functions': len(table.present),
      'missing_functions': [
          name for name in structs.functions() if not table.has(name)
      ],
      'later_functions': [
          name for name in structs.later_functions() if table.has(name)
      ],
      'extensions': list(table.extensions()),
      'attributes': {
          name: list(value) if isinstance(value, tuple) else value
          for name, value in table.attributes().items()
      },
  }


def _devices(context: Context) -> Found:
  """The client's devices, or 'start_error' where it does not start."""
  try:
    client = context.kept_client()
    facts = {
        'platform': _answer(lambda: client.platform),
        'platform_version': _answer(_platform_version, client),
        'devices': list(client.ids),
    }
    if client.devices:
      facts.update(_device_capabilities(client))
    return facts
  except PjrtError as e:
    return {'start_error': _words(e)}


def _device_capabilities(client: Client) -> Found:
  topology = _answer(
      client.table.call, 'Client_TopologyDescription', client=client.address)
  return {
      'device_kind': _answer(_kind, client),
      'memory_kinds': _answer(_memory_kinds, client) or [],
      'memory_statistics': _answer(client.bytes_in_use) is not None,
      'topology': topology is not None,
  }


def _platform_version(client: Client) -> str:
  answer = client.table.call('Client_PlatformVersion', client=client.address)
  return text(answer.platform_version, answer.platform_version_size)


def _kind(client: Client) -> str:
  answer = describe(client.table, client.devices[0], 'Kind')
  return text(answer.device_kind, answer.device_kind_size)


def _memory_kinds(client: Client) -> list[str]:
  answer = client.table.call(
      'Device_AddressableMemories', device=client.devices[0])
  kinds = []
  for memory in pointers(answer.memories, answer.num_memories):
    kind = client.table.call('Memory_Kind', memory=memory)
    kinds.append(text(kind.kind, kind.kind_size))
  return kinds


def _takes(context: Context, form: Format) -> Any:
  """True, or the compiler's words to a sum in that format."""
  client = context.kept_client()
  program = elementwise((_COUNT,)).program(form.name, client.ids[:1])
  try:
    client.compile(form.written(program))
    return True
  except PjrtError as e:
    return _words(e)


def _artifacts(context: Context) -> Found:
  answers: Any = 'not measured: jaxlib is not installed'
  if formats.can_write_artifacts():
    answers = {
        form.artifact_version: _takes(context, form)
        for form in formats.artifacts()
    }
  return {'artifacts': answers}


def _format(context: Context) -> Found:
  """The program format of the cases, and the version of StableHLO, or None."""
  known = context.capabilities
  read = [] if known.get('mlir') is True else _artifacts_read(known)
  form = (
      HLO if known.get('hlo') is True else MLIR if _takes_mlir(known) else None)
  return {'format': form, 'artifact_version': read[0] if read else None}


def _takes_mlir(known: Mapping[str, Any]) -> bool:
  return known.get('mlir') is True or bool(_artifacts_read(known))


def _artifacts_read(known: Mapping[str, Any]) -> list[str]:
  answers = known.get('artifacts')
  if not isinstance(answers, Mapping):
    return []
  return [version for version, answer in answers.items() if answer is True]


def _sum(context: Context, donated: bool = False) -> Loaded:
  return context.kept_client().compile(elementwise((_COUNT,), donated=donated))


def _executables(context: Context) -> Found:
  table = context.table
  with _sum(context).executable() as address:
    program = _answer(executable.optimized_program, table, address)
    cost = _answer(table.call, 'Executable_GetCostAnalysis', executable=address)
    memory = _answer(
        table.call, 'Executable_GetCompiledMemoryStats', executable=address)
    return {
        'optimized_program': program[1] if program else '',
        'serialization': bool(_answer(executable.serialize, table, address)),
        'cost_analysis': bool(cost and cost.num_properties),
        'compiled_memory_statistics': memory is not None,
    }


def _donation(context: Context) -> bool:
  loaded = _sum(context, donated=True)
  left, right = (loaded.client.put_floats(range(_COUNT)) for _ in range(2))
  loaded.execute([[left, right]])
  return left.deleted


def _asynchronous_errors(context: Context) -> Any:
  """The way an execution reports that an input of it never came."""
  loaded = _sum(context)
  right = loaded.client.put_floats(range(_COUNT))
  with pending_buffer(loaded.client, _COUNT) as (left, fail):
    fail()
    how: Any = 'by the status of Execute'
    with contextlib.suppress(PjrtError):
      execution = loaded.start([[left, right]])
      how = 'by the completion event'
      execution.wait()
      how = False
  return how


def _partitioned(context: Context, make: Callable[[Context, Client],
                                                  Program]) -> bool:
  """Compiles a program for all devices."""
  client = context.kept_client()
  if len(client.ids) < 2:
    raise NotApplicable('there is one device')
  client.compile(make(context, client))
  return True


def _gspmd(context: Context, client: Client) -> Program:
  count = len(client.ids)
  split = parse_sharding(f'{{devices=[{count}]<=[{count}]}}')
  return client.program(
      elementwise((count,), shardings=(split,) * 3), client.ids)


def _shardy_attributes(context: Context, client: Client) -> Program:
  return with_attributes(context.capabilities['format'], client.ids)


def _shardy_dialect(context: Context, client: Client) -> Program:
  if not _takes_mlir(context.capabilities):
    raise NotApplicable('the plugin does not take MLIR')
  return with_dialect(client.ids)


def _words(error: Exception) -> str:
  return str(error)[:_LONGEST]


def _answer(call: Callable[..., Any], *args: Any, **values: Any) -> Any:
  """The call's answer; None where the plugin cannot or will not."""
  try:
    return call(*args, **values)
  except (PjrtError, MissingError):
    return None


# In this order: later ones look at what earlier ones have found. What is no
# mapping is the capability by the name of the probe.
_PROBES: Mapping[str, Callable[[Context], Any]] = {
    'table':
        _table,
    'devices':
        _devices,
    'hlo':
        lambda context: _takes(context, Format(HLO)),
    'mlir':
        lambda context: _takes(context, Format(MLIR)),
    'artifacts':
        _artifacts,
    'format':
        _format,
    'executables':
        _executables,
    'donation':
        _donation,
    'asynchronous_errors':
        _asynchronous_errors,
    'gspmd':
        lambda context: _partitioned(context, _gspmd),
    'shardy_attributes':
        lambda context: _partitioned(context, _shardy_attributes),
    'shardy_dialect':
        lambda context: _partitioned(context, _shardy_dialect),
}

# What needs no device, and what no program.
_FIRST = ('table', 'devices')
_BEFORE_PROGRAMS = (*_FIRST, 'hlo', 'mlir', 'artifacts', 'format')


def measure(context: Context, part: str) -> str:
  """Measures the capabilities, as JSON, and stores them in the context.

  What the plugin lacks is false, empty, null or its own words. A plugin that
  does not start tells why in 'start_error'.
  """
  before = context.capabilities
  if part not in _FIRST and not before.get('devices'):
    raise NotApplicable('there is no device')
  if part not in _BEFORE_PROGRAMS and not before.get('format'):
    raise NotApplicable('it takes programs neither in HLO nor in MLIR')
  try:
    answer = _PROBES[part](context)
    facts = answer if isinstance(answer, dict) else {part: answer}
  except LoadError as e:
    facts = {'start_error': str(e)}
  except (MissingError, PjrtError) as e:
    if part == 'table':
      raise
    facts = {part: _words(e)}
  context.capabilities = {**before, **facts}
  return json.dumps(facts)


CASE = Case(
    CAPABILITIES,
    'what rests on it cannot be judged',
    measure,
    tuple(_PROBES),
    devices=0)
