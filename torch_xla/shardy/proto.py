"""The few fields of XLA's protobuf messages that the fork reads or writes.

A message declared here keeps every field that it does not name: protobuf holds
on to unknown fields and writes them back. Field numbers are those of
xla/pjrt/proto/compile_options.proto and xla/service/hlo.proto.
"""

import functools
from typing import Any

_BOOL, _INT64, _STRING = 'TYPE_BOOL', 'TYPE_INT64', 'TYPE_STRING'

# Message -> ((field, number, scalar type or message), ...).
_MESSAGES = {
    'ExecutableBuildOptionsProto': (
        ('num_replicas', 4, _INT64),
        ('num_partitions', 5, _INT64),
        ('use_spmd_partitioning', 6, _BOOL),
        ('use_shardy_partitioner', 19, _BOOL),
    ),
    'CompileOptionsProto': (
        ('executable_build_options', 3, 'ExecutableBuildOptionsProto'),),
    'HloModuleProto': (('name', 1, _STRING),),
}
# A package of our own: XLA's descriptors may be in the same process.
_PACKAGE = 'torch_xla.shardy'


@functools.lru_cache(maxsize=None)
def _pool() -> Any:
  # Imported here because a process with the mode off never needs it.
  from google.protobuf import descriptor_pb2, descriptor_pool
  field_type = descriptor_pb2.FieldDescriptorProto
  file = descriptor_pb2.FileDescriptorProto(
      name='torch_xla/shardy/xla.proto', package=_PACKAGE, syntax='proto3')
  for message_name, fields in _MESSAGES.items():
    message = file.message_type.add(name=message_name)
    for name, number, kind in fields:
      field = message.field.add(
          name=name, number=number, label=field_type.LABEL_OPTIONAL)
      if kind in _MESSAGES:
        field.type = field_type.TYPE_MESSAGE
        field.type_name = f'.{_PACKAGE}.{kind}'
      else:
        field.type = getattr(field_type, kind)
  pool = descriptor_pool.DescriptorPool()
  pool.Add(file)
  return pool


@functools.lru_cache(maxsize=None)
def message_class(name: str) -> type:
  """The class of one of the messages declared above."""
  from google.protobuf import message_factory
  return message_factory.GetMessageClass(
      _pool().FindMessageTypeByName(f'{_PACKAGE}.{name}'))


def parse(name: str, data: bytes) -> Any:
  """Parses `data` as message `name`.

  Raises:
    ValueError: `data` is damaged.
  """
  from google.protobuf.message import DecodeError
  try:
    return message_class(name).FromString(data)
  except DecodeError as e:
    raise ValueError(f'not a valid {name} ({len(data)} bytes): {e}') from e
