"""Programs compiled for devices that are not there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
import contextlib
import dataclasses
import functools
from typing import Optional

from ..shared.hlo.compile_options import Partitioner
from ..shared.sharding.text import parse_sharding
from ..case import Case, expect, Failure, NotApplicable
from ..context import Context
from ..pjrt import formats
from ..pjrt.executable import optimized_program
from ..pjrt.formats import Format
from ..pjrt.graph import elementwise
from ..pjrt.programs import Program
from ..pjrt.sdy_programs import with_attributes
from ..pjrt.table import MissingError, PjrtError, pointers, Table
from .checks import skipped_if

_SECONDS = 180


@contextlib.contextmanager
def _topology(context: Context) -> Iterator[int]:
  """The address of the topology that the run names, while in the block."""
  context.needs('TopologyDescription_Create')
  context.needs('Compile')
  name = context.subject.topology
  if not name:
    raise NotApplicable('--topology names none to compile for')
  with skipped_if('UNIMPLEMENTED', 'the plugin has no topologies: '):
    topology = context.table.call(
        'TopologyDescription_Create', topology_name=name.encode()).topology
  try:
    yield topology
  finally:
    context.table.call('TopologyDescription_Destroy', topology=topology)


def _ids(table: Table, topology: int) -> list[int]:
  answer = table.call(
      'TopologyDescription_GetDeviceDescriptions', topology=topology)
  return sorted(
      table.call('DeviceDescription_Id', device_description=description).id
      for description in pointers(answer.descriptions, answer.num_descriptions))


def _devices(context: Context, part: str) -> str:
  with _topology(context) as topology:
    ids = _ids(context.table, topology)
  expect(bool(ids), f'{context.subject.topology} has no devices')
  expect(len(set(ids)) == len(ids), f'two devices have the same id: {ids}')
  return f'{len(ids)} device(s)'


@contextlib.contextmanager
def _compiled(context: Context, topology: int,
              program: Program) -> Iterator[int]:
  compiled = context.table.call(
      'Compile', topology=topology, **program.arguments())
  try:
    yield compiled.executable
  finally:
    context.table.call('Executable_Destroy', executable=compiled.executable)


def _format(context: Context, topology: int, ids: Sequence[int]) -> Format:
  """The format in which the plugin takes programs for a topology."""

  refusal: Optional[PjrtError] = None
  for form in formats.known():
    program = elementwise((8,)).program(form.name, ids[:1])
    try:
      with _compiled(context, topology, form.written(program)):
        return form
    except PjrtError as e:
      refusal = refusal or e
  assert refusal
  raise refusal


def _compile(context: Context, part: str) -> str:
  """Compiles programs split by GSPMD from V1 and V2, and by Shardy."""
  with _topology(context) as topology:
    ids = _ids(context.table, topology)
    count = len(ids)
    form = _format(context, topology, ids)
    if part == 'shardy':
      program = with_attributes(form.name, ids)
    else:
      split = parse_sharding(f'{{devices=[{count}]<=[{count}]}}')
      if part == 'v1':
        split = split.to_v1()
      program = elementwise(
          (count,), shardings=(split,) * 3).program(form.name, ids,
                                                    Partitioner.GSPMD)
    with _compiled(context, topology, form.written(program)) as compiled:
      arguments = _argument_bytes(context.table, compiled)
      code, compiled_form = optimized_program(context.table, compiled)
  expect(bool(code), 'it tells no optimized program')
  return f'{count} partitions, {arguments}, {compiled_form}'


def _argument_bytes(table: Table, executable: int) -> str:
  try:
    answer = table.call(
        'Executable_GetCompiledMemoryStats', executable=executable)
  except (MissingError, PjrtError):
    return 'bytes of arguments untold'
  return f'{answer.argument_size_in_bytes} bytes of arguments'


def _damaged(context: Context, part: str) -> str:
  with _topology(context) as topology:
    ids = _ids(context.table, topology)
    form = _format(context, topology, ids)
    good = form.written(elementwise((8,)).program(form.name, ids[:1]))
    damaged = dataclasses.replace(good, code=good.code[:len(good.code) // 2])
    try:
      with _compiled(context, topology, damaged):
        pass
    except PjrtError as e:
      expect(bool(e.message), f'{e.code}, and no words with it')
      return e.code
  raise Failure('a truncated program was compiled')


_case = functools.partial(Case, devices=0, seconds=_SECONDS)
_NOTHING = 'programs cannot be tried for machines that are not there'
CASES: tuple[Case, ...] = (
    _case('ahead.devices', _NOTHING, _devices),
    _case('ahead.compile', _NOTHING, _compile, ('v1', 'v2', 'shardy')),
    _case('ahead.damaged', 'a damaged program ends the process', _damaged),
)
