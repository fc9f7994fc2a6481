"""XLA's protobuf messages, of which `protos` declares what is used here."""

from __future__ import annotations

import functools
from typing import (Annotated, Any, get_args, get_origin, get_type_hints,
                    Optional, TypeVar)

from .protos import HloModuleProto, HloModuleProtoWithConfig, Message, Repeated

M = TypeVar('M', bound=Message)

_SCALARS = {
    bool: 'TYPE_BOOL',
    bytes: 'TYPE_BYTES',
    int: 'TYPE_INT64',
    str: 'TYPE_STRING'
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
  for declared in Message.__subclasses__():
    message = file.message_type.add(name=declared.__name__)
    hints = get_type_hints(declared, include_extras=True)
    for name, hint in hints.items():
      kind, *labels, number = get_args(hint)
      field = message.field.add(
          name=name, number=number, label=field_type.LABEL_OPTIONAL)
      if get_origin(kind) is Repeated:
        field.label = field_type.LABEL_REPEATED
        kind, = get_args(kind)
      if get_origin(kind) is Annotated:
        kind, *labels = get_args(kind)
      if 'optional' in labels:  # How proto3 writes it down.
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f'_{name}')
      if labels or kind in _SCALARS:
        field.type = getattr(field_type, (*labels, _SCALARS.get(kind))[0])
      else:
        field.type = field_type.TYPE_MESSAGE
        field.type_name = f'.{_PACKAGE}.{kind.__name__}'
  pool = descriptor_pool.DescriptorPool()
  pool.Add(file)
  return pool


@functools.lru_cache(maxsize=None)
def _class(kind: type[Message]) -> Any:
  from google.protobuf import message_factory
  return message_factory.GetMessageClass(
      _pool().FindMessageTypeByName(f'{_PACKAGE}.{kind.__name__}'))


def make(kind: type[M], **fields: Any) -> M:
  """One of the messages that `protos` declares."""
  message: M = _class(kind)(**fields)
  return message


def parse(kind: type[M], data: bytes) -> M:
  """Parses `data` as a message."""
  from google.protobuf.message import DecodeError
  try:
    message: M = _class(kind).FromString(data)
    return message
  except DecodeError as e:
    raise ValueError(
        f'not a valid {kind.__name__} ({len(data)} bytes): {e}') from e


def with_sorted_maps(program: bytes) -> bytes:
  """A serialised HloModuleProto with its attributes in the order of their keys.

  A map has no order on the wire: each process writes one of its own, as of the
  two attributes that torch_xla gives an einsum.

  Raises:
    ValueError: `program` is damaged.
  """
  module = parse(HloModuleProto, program)
  is_sorted = True
  for attributes in (module.frontend_attributes, *(i.frontend_attributes
                                                   for c in module.computations
                                                   for i in c.instructions)):
    keys = [entry.key for entry in attributes.map]
    if keys != sorted(keys):
      entries = sorted(attributes.map, key=lambda entry: entry.key)
      del attributes.map[:]
      attributes.map.extend(entries)
      is_sorted = False
  return program if is_sorted else module.SerializeToString()


# The formats of the answers that `parse_compiled` reads.
HLO_FORMATS = ('hlo', 'hlo_with_config')


def parse_compiled(
    program: bytes,
    program_format: str) -> Optional[tuple[Message, HloModuleProto]]:
  """A program as PJRT_Executable_OptimizedProgram gives it.

  Returns:
    The message and the HloModuleProto message that it is or holds; None for
    formats other than 'hlo' and 'hlo_with_config'.

  Raises:
    ValueError: `program` is damaged.
  """
  if program_format == 'hlo':
    module = parse(HloModuleProto, program)
    return module, module
  if program_format == 'hlo_with_config':
    message = parse(HloModuleProtoWithConfig, program)
    return message, message.hlo_module
  return None
