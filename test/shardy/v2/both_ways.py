"""Compiles each program of this process from V1 as well as from V2.

What runs is the program from V2. Both are kept, as text, to be compared.
"""

import contextlib
import functools
from typing import Iterator, List, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from torch_xla.shardy import door
from torch_xla.shardy.hlo import messages, protos
from torch_xla.shardy.sharding.tile_assignment import IotaTileAssignment
from torch_xla.shardy.v2 import to_v1, to_v2
import v2_programs


class Both(NamedTuple):
  """A program that was compiled twice.

  Attributes:
    shardings: how many of its shardings become V2.
    from_v1: the compiled program, as XLA prints it with devices listed.
    from_v2: likewise, with the shardings that `_XLAC` reads.
    raw_from_v2: likewise, with the shardings that the compiler made.
  """
  shardings: to_v2.ShardingCounts
  from_v1: str
  from_v2: str
  raw_from_v2: str


# What there is of xla/service/hlo.proto on the way to a replica group.
_MESSAGES = {
    'HloModule': (('computations', 3, 'Computation'),),
    'Computation': (('instructions', 2, 'Instruction'),),
    'Instruction': (('collective_device_list', 87, 'DeviceList'),),
    'DeviceList': (('replica_groups', 1, 'Group'), ('iota', 2, 'Iota')),
    'Group': (('replica_ids', 1, int),),
    'Iota': (('groups', 1, int), ('devices_per_group', 2, int),
             ('reshape_dims', 3, int), ('transpose_perm', 4, int)),
}


@functools.lru_cache(maxsize=None)
def _module_class() -> type:
  field_type = descriptor_pb2.FieldDescriptorProto
  file = descriptor_pb2.FileDescriptorProto(
      name='both_ways.proto', package='both_ways', syntax='proto3')
  for message_name, fields in _MESSAGES.items():
    message = file.message_type.add(name=message_name)
    for name, number, kind in fields:
      field = message.field.add(
          name=name, number=number, label=field_type.LABEL_REPEATED)
      if kind is int:
        field.type = field_type.TYPE_INT64
      else:
        field.type = field_type.TYPE_MESSAGE
        field.type_name = f'.both_ways.{kind}'
  pool = descriptor_pool.DescriptorPool()
  pool.Add(file)
  return message_factory.GetMessageClass(
      pool.FindMessageTypeByName('both_ways.HloModule'))


def list_groups(module: bytes) -> bytes:
  """A serialised HloModuleProto with its replica groups' iotas expanded.

  From V2 shardings XLA makes iotas where it makes lists from V1 ones, and
  sometimes from V1 as well. They mean the same.
  """
  message = _module_class().FromString(module)
  for computation in message.computations:
    for instruction in computation.instructions:
      for devices in instruction.collective_device_list:
        for iota in devices.iota:
          groups = IotaTileAssignment(
              (iota.groups[0], iota.devices_per_group[0]), iota.reshape_dims,
              iota.transpose_perm)
          for group in groups.to_array().tolist():
            devices.replica_groups.add(replica_ids=group)
        del devices.iota[:]
  return message.SerializeToString()


def text_of(program: bytes, program_format: str) -> str:
  """A compiled program, printed by XLA, with all replica groups listed."""
  from jaxlib import _hlo
  assert program_format == 'hlo_with_config'
  module = messages.parse(protos.HloModuleProtoWithConfig, program).hlo_module
  return _hlo.HloModule.from_serialized_hlo_module_proto(
      list_groups(module.SerializeToString())).to_string()


@contextlib.contextmanager
def compile_both_ways() -> Iterator[List[Both]]:
  """Collects the programs that are compiled in the block."""
  both: List[Both] = []

  def compile_twice(compilation: door.Compilation, rest: door.Compiler) -> None:
    compilation.compile(compilation.program, compilation.options)
    from_v1 = compilation.compiled_program()
    rest(compilation)
    program, program_format = compilation.compiled_program()
    read = to_v1.to_v1(program, program_format) or program
    both.append(
        Both(
            v2_programs.emit(compilation.program).shardings, text_of(*from_v1),
            text_of(read, program_format), text_of(program, program_format)))

  undo = door.wrap(compile_twice)
  try:
    yield both
  finally:
    undo()


def check_same(both: List[Both], v2: int = 1, collective: str = '') -> None:
  """Checks that V2 changed no program.

  Args:
    v2: at least so many shardings must have become V2: otherwise nothing was
      compared.
    collective: an instruction that must be in one of the programs.
  """
  for program in both:
    assert program.from_v2 == program.from_v1
  assert sum(program.shardings.v2 for program in both) >= v2
  assert any(f' {collective}' in program.from_v1 for program in both)
