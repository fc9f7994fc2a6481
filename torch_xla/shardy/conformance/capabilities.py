"""What a plugin can do, measured before it is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
import dataclasses
import json
import struct
from typing import Any

from ..hlo.compile_options import Partitioner
from ..sharding.text import parse_sharding
from .case import Case
from .context import Context
from .pjrt import artifacts, client as clients, slots
from .pjrt.client import Client
from .pjrt.host_array import HostArray
from .pjrt.programs import Elementwise, HLO, MLIR
from .pjrt.sdy_programs import with_attributes, with_dialect
from .pjrt.table import (LoadError, MissingError, PjrtError, pointers, Table,
                         text)

# Of a compiler's words, which may hold a whole program.
_LONGEST = 500
_DIMS = (8,)
_NUMBERS = HostArray('F32', _DIMS, struct.pack('<8f', *range(8)))


def measure(context: Context, part: str) -> str:
  """The capabilities as JSON; what the plugin lacks is false, empty or null.

  Keys: see `CASE`'s module. A plugin that cannot start tells why in
  'start_error', and what needs a client is not there.
  """
  del part
  found: dict[str, Any] = {
      'library': context.library,
      'devices': [],
      'format': None
  }
  try:
    table = context.table
  except LoadError as e:
    return json.dumps({**found, 'start_error': str(e)})
  found.update({
      'api_version': list(table.version),
      'functions': len(table.present),
      'missing_functions': [
          name for name in slots.NAMES if not table.has(name)
      ],
      'extensions': list(table.extensions()),
      'attributes': {
          name: list(value) if isinstance(value, tuple) else value
          for name, value in table.attributes().items()
      },
  })
  try:
    with context.client() as client:
      found.update(_of_client(table, client))
  except PjrtError as e:
    found['start_error'] = str(e)[:_LONGEST]
  return json.dumps(found)


def _of_client(table: Table, client: Client) -> dict[str, Any]:
  told = table.call('Client_PlatformName', client=client.address)
  version = table.call('Client_PlatformVersion', client=client.address)
  found: dict[str, Any] = {
      'platform':
          text(told.platform_name, told.platform_name_size),
      'platform_version':
          text(version.platform_version, version.platform_version_size),
      'devices':
          list(client.ids),
      'device_kind':
          _try(lambda: _kind(table, client)),
      'memory_kinds':
          _try(lambda: _memory_kinds(table, client)) or [],
      'memory_statistics':
          _try(client.bytes_in_use) is not None,
      'topology':
          _try(lambda: table.call(
              'Client_TopologyDescription', client=client.address)) is not None,
      'host_callbacks':
          'FFI' in table.extensions() or 'Callback' in table.extensions(),
  }
  found.update(_formats(client))
  if found['format']:
    client = dataclasses.replace(
        client, artifact_version=found['artifact_version'])
    found.update(
        _of_programs(table, client, found['format'], _takes_mlir(found)))
  return found


def _formats(client: Client) -> dict[str, Any]:
  """What it reads: HLO, StableHLO's text, artifacts of some versions.

  'format' is what the cases use, and 'artifact_version' what they write
  StableHLO in where text is refused.
  """
  what = Elementwise(_DIMS)
  hlo, mlir = (what.program(form, client.ids[:1]) for form in (HLO, MLIR))
  found: dict[str, Any] = {
      'hlo': _compiles(client, hlo),
      'mlir': _compiles(client, mlir),
      'artifacts': 'not measured: jaxlib is not installed',
  }
  read: list[str] = []
  if artifacts.can_write():
    found['artifacts'] = {
        version: _compiles(client, artifacts.as_artifact(mlir, version))
        for version in artifacts.versions()
    }
    read = [v for v, answer in found['artifacts'].items() if answer is True]
  found['artifact_version'] = (
      read[0] if read and found['mlir'] is not True else None)
  found['format'] = HLO if found['hlo'] is True else None
  if not found['format'] and _takes_mlir(found):
    found['format'] = MLIR
  return found


def _takes_mlir(found: Mapping[str, Any]) -> bool:
  return found['mlir'] is True or found['artifact_version'] is not None


def _of_programs(table: Table, client: Client, form: str,
                 takes_mlir: bool) -> dict[str, Any]:
  loaded = client.compile(Elementwise(_DIMS).program(form, client.ids[:1]))
  try:
    with loaded.executable() as executable:
      optimized = _try(
          lambda: clients.optimized_program(table, executable)[1]) or ''
      found = {
          'optimized_program':
              optimized,
          'serialization':
              bool(_try(lambda: clients.serialize(table, executable))),
          'cost_analysis':
              bool(
                  _try(lambda: table.call(
                      'Executable_GetCostAnalysis', executable=executable).
                       num_properties)),
          'compiled_memory_statistics':
              _try(lambda: table.call(
                  'Executable_GetCompiledMemoryStats', executable=executable))
              is not None,
      }
  finally:
    loaded.destroy()
  found['donation'] = _try(lambda: _donates(client, form)) is True
  if len(client.ids) > 1:
    found.update(_of_partitioning(client, form, takes_mlir))
  return found


def _of_partitioning(client: Client, form: str,
                     takes_mlir: bool) -> dict[str, Any]:
  count = len(client.ids)
  split = parse_sharding(f'{{devices=[{count}]<=[{count}]}}')
  what = Elementwise((count,), shardings=(split, split, split))
  programs = {
      'gspmd': what.program(form, client.ids, Partitioner.GSPMD),
      'shardy_attributes': with_attributes(count, form, client.ids),
  }
  if takes_mlir:
    programs['shardy_dialect'] = with_dialect(count, client.ids)
  return {name: _compiles(client, each) for name, each in programs.items()}


def _compiles(client: Client, program: Any) -> Any:
  """True, or the plugin's words."""
  try:
    client.compile(program).destroy()
    return True
  except PjrtError as e:
    return str(e)[:_LONGEST]


def _donates(client: Client, form: str) -> bool:
  loaded = client.compile(
      Elementwise(_DIMS, donated=True).program(form, client.ids[:1]))
  left, right = client.put(_NUMBERS), client.put(_NUMBERS)
  (result,), = loaded.execute([[left, right]])
  deleted = left.deleted
  for buffer in (left, right, result):
    buffer.destroy()
  loaded.destroy()
  return deleted


def _kind(table: Table, client: Client) -> str:
  description = table.call(
      'Device_GetDescription', device=client.devices[0]).device_description
  told = table.call('DeviceDescription_Kind', device_description=description)
  return text(told.device_kind, told.device_kind_size)


def _memory_kinds(table: Table, client: Client) -> list[str]:
  told = table.call('Device_AddressableMemories', device=client.devices[0])
  kinds = []
  for memory in pointers(told.memories, told.num_memories):
    kind = table.call('Memory_Kind', memory=memory)
    kinds.append(text(kind.kind, kind.kind_size))
  return kinds


def _try(call: Callable[[], Any]) -> Any:
  """None where the plugin cannot or will not."""
  try:
    return call()
  except (PjrtError, MissingError):
    return None


CASE = Case(
    'capabilities', 'nothing can be said of the plugin', measure, devices=0)
