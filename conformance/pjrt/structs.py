"""The functions of a PJRT table and the structs that they take.

They are those of pjrt_abi.inc, from which C is compiled, too.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
import re
from typing import Any

_DESCRIPTION = Path(__file__).parents[1] / 'shared/pjrt_abi.inc'
_ENTRY = re.compile(r'^ABI_(STRUCT|FUNCTION|BARE)\((.*(?:\n +.*)*)\)$',
                    re.MULTILINE)
# One with its type before it; of a pointer to a function, arguments follow.
_FIELD = re.compile(r'(?P<type>.*?)(?P<name>\w+)(?P<function>\)\(.*)?')
_TYPES = {
    'size_t': ctypes.c_size_t,
    'uintptr_t': ctypes.c_size_t,
    'int': ctypes.c_int,
    'int64_t': ctypes.c_int64,
    'bool': ctypes.c_bool,
    'AbiFunction': ctypes.c_void_p,
}
# The newest function of API 0.81, by which plugins are judged.
_NEWEST = 'LoadedExecutable_GetDeviceAssignment'
# A newer plugin may read fields that are not known here: they are zero.
_ROOM = 512


@functools.cache
def _described() -> dict[str, tuple[bool, str]]:
  """For each name, in order, whether it is a function's, and its fields."""
  text = re.sub(r'//.*', '', _DESCRIPTION.read_text(encoding='utf-8'))
  described = {}
  for kind, entry in _ENTRY.findall(text):
    count = {'STRUCT': 1, 'BARE': 2, 'FUNCTION': 3}[kind]
    *words, fields = (' '.join(entry.split()) + ', ').split(', ', count)
    # BARE and FUNCTION begin with who answers.
    name = '_'.join(words[count > 1:])
    described[name] = count > 1, fields.removesuffix(', ')
  return described


@functools.cache
def _all_functions() -> tuple[str, ...]:
  return tuple(name for name, (is_one, _) in _described().items() if is_one)


def functions() -> tuple[str, ...]:
  """The functions in their order; a table only ever grows at its end."""
  return _all_functions()[:_all_functions().index(_NEWEST) + 1]


def later_functions() -> tuple[str, ...]:
  """Those behind them, by which no plugin is judged."""
  return _all_functions()[len(functions()):]


def names() -> tuple[str, ...]:
  return tuple(_described())


@functools.cache
def struct(name: str) -> type[ctypes.Structure]:
  """The struct of a function's arguments, or one that they point to.

  Of a union it has the int64.
  """
  fields = [('struct_size', ctypes.c_size_t),
            ('extension_start', ctypes.c_void_p)]
  text = re.sub(r'union {.*?}', 'int64_t int64_value', _described()[name][1])
  for field in text.rstrip(';').split(';') if text else ():
    match = _FIELD.fullmatch(field.strip())
    field_type = match['type'].strip()
    if '*' in field_type:
      kind = ctypes.c_void_p
    else:
      kind = _TYPES[field_type] if field_type in _TYPES else struct(
          field_type.removeprefix('Abi'))
    fields.append((match['name'], kind))
  return type(name, (ctypes.Structure,), {'_fields_': fields})


def size_of(kind: type[ctypes.Structure]) -> int:
  """The size that a caller says: to the end of the last field, unpadded."""
  last = getattr(kind, kind._fields_[-1][0])
  return last.offset + last.size


def make(name: str, /, *, room: bool = True, **values: Any) -> Any:
  """A struct with its size set and all else zero but `values`.

  Bytes, lists of integers, structs and arrays of ctypes stand for their
  addresses, where the field is a pointer; they live as long as the struct. Of
  bytes and lists the length is set, too.

  Args:
    room: whether fields that are not known here follow, as zeros.
  """
  kind = struct(name)
  size = ctypes.sizeof(kind)
  if room and name != 'NamedValue':  # These stand in arrays.
    memory = (ctypes.c_char * max(_ROOM, size))()
    instance: Any = kind.from_buffer(memory)
    instance.struct_size = len(memory)
  else:
    instance = kind()
    instance.struct_size = size
  instance.held = []
  for field, value in values.items():
    if not isinstance(value, int):
      value = _held(instance, field, value)
    setattr(instance, field, value)
  return instance


def _held(instance: Any, field: str, value: Any) -> Any:
  """A value, or its address, which the struct keeps; sets its length, too."""
  if isinstance(value, (bytes, list, tuple, range)):
    count = len(value)
    for length in (f'num_{field}', f'{field}_size'):
      if hasattr(instance, length):
        setattr(instance, length, count)
    value = (
        ctypes.create_string_buffer(value, max(1, count)) if isinstance(
            value, bytes) else (ctypes.c_int64 * max(1, count))(*value))
  instance.held.append(value)
  if (isinstance(value, (ctypes.Array, ctypes.Structure)) and
      not isinstance(getattr(instance, field), ctypes.Structure)):
    return ctypes.addressof(value)
  return value
