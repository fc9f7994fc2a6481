"""A PJRT table whose functions are methods of Python objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
import ctypes
import itertools
from typing import Any, Optional

from torch_xla_conformance.pjrt import structs, table

_API = (0, 81)
_CALL = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


def _struct(*fields: tuple[str, Any]) -> type[ctypes.Structure]:
  header = (('struct_size', ctypes.c_size_t),
            ('extension_start', ctypes.c_void_p), ('of', ctypes.c_void_p))
  return type('Arguments', (ctypes.Structure,), {'_fields_': header + fields})


_TEXT = _struct(('text', ctypes.c_void_p), ('text_size', ctypes.c_size_t))
_NUMBER = _struct(('number', ctypes.c_size_t))
# Whose fields pjrt_abi.inc leaves out.
_UNDESCRIBED = {
    'Executable_Name': _TEXT,
    'DeviceDescription_DebugString': _TEXT,
    'DeviceDescription_ToString': _TEXT,
    'Executable_NumReplicas': _NUMBER,
    'Executable_NumPartitions': _NUMBER,
    'Executable_SizeOfGeneratedCodeInBytes': _NUMBER,
}


class Handles:
  """What pointers of the plugin stand for, and memory that it gives away."""

  def __init__(self) -> None:
    self._things: dict[int, Any] = {}
    self._numbers = itertools.count(16, 16)
    self._arrays: dict[tuple[Any, ...], Any] = {}

  def hold(self, thing: Any) -> int:
    """A new pointer to it, never to be followed."""
    number = next(self._numbers)
    self._things[number] = thing
    return number

  def __getitem__(self, number: int) -> Any:
    return self._things[number]

  def drop(self, number: int) -> None:
    self._things.pop(number, None)

  def array(self, kind: Any, values: Iterable[Any]) -> int:
    """The address of an array of these values, which stays where it is."""
    key = (kind, *values)
    if key not in self._arrays:
      self._arrays[key] = (kind * max(1, len(key) - 1))(*key[1:])
    return ctypes.addressof(self._arrays[key])

  def text(self, field: str, text: str) -> dict[str, int]:
    """A string, as an answer of two fields."""
    data = text.encode()
    return {
        field: self.array(ctypes.c_ubyte, data + b'\0'),
        f'{field}_size': len(data)
    }


class AnsweredTable:
  """The table. What it was asked for is done when a function returns.

  A method has the name of its function, takes the arguments' struct, and gives
  the fields that it answers. What it raises is the function's error. Events
  have all come.
  """
  EVENT = 8

  def __init__(self, handles: Handles, *answerers: object):
    self._handles = handles
    answerers = (self, *answerers)
    names = structs.functions()
    self._functions = [self._function(name, answerers) for name in names]
    version = (24, 0, _API[0] | _API[1] << 32)
    size = table.FIRST_SLOT + 8 * len(names)
    self._words = (ctypes.c_size_t * (size // 8))(
        size, 0, *version,
        *(ctypes.cast(f, ctypes.c_void_p).value for f in self._functions))

  def give_to(self, library: str) -> None:
    """Has a library, built from given_table.c, give this table out.

    Both then live as long as the process.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
    ctypes.CDLL(library).GivePjrtApi(
        ctypes.c_void_p(ctypes.addressof(self._words)))

  def _function(self, name: str, answerers: Iterable[object]) -> Any:
    method = next((getattr(a, name) for a in answerers if hasattr(a, name)),
                  None)
    kind: Any = _UNDESCRIBED.get(name) or structs.struct(name)

    def call(address: int) -> Optional[int]:
      arguments = kind.from_address(address)
      try:
        if method is None:
          raise NotImplementedError(f'UNIMPLEMENTED: there is no PJRT_{name}')
        answers: Mapping[str, Any] = method(arguments) or {}
        for field, value in answers.items():
          where = getattr(kind, field)
          # Older callers know less.
          if where.offset + where.size <= arguments.struct_size:
            setattr(arguments, field, value)
        return None
      except Exception as e:  # pylint: disable=broad-except
        return self._handles.hold(e)

    return _CALL(call)

  def Error_Destroy(self, args: Any) -> None:
    self._handles.drop(args.error)

  def Error_Message(self, args: Any) -> dict[str, int]:
    return self._handles.text('message', str(self._handles[args.error]))

  def Error_GetCode(self, args: Any) -> dict[str, int]:
    code = str(self._handles[args.error]).partition(':')[0]
    known = code if code in table.CODES else 'INTERNAL'
    return {'code': table.CODES.index(known)}

  def Plugin_Initialize(self, args: Any) -> None:
    pass

  def Plugin_Attributes(self, args: Any) -> dict[str, int]:
    return {'num_attributes': 0}

  def Event_Await(self, args: Any) -> None:
    pass

  Event_Error = Event_Destroy = Event_Await

  def Event_IsReady(self, args: Any) -> dict[str, bool]:
    return {'is_ready': True}

  def Event_OnReady(self, args: Any) -> None:
    ctypes.CFUNCTYPE(None, ctypes.c_void_p,
                     ctypes.c_void_p)(args.callback)(None, args.user_arg)
