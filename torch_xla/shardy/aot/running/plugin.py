"""Python's side of libpjrt_aot.so, the plugin that compiles and does not run.

The C side is documented in csrc/pjrt_aot/pjrt_aot.h.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
import ctypes
import functools
import itertools
import os
from typing import Any, Optional

from ..errors import AotError
from ..settings import Settings
from ..topologies import TopologyName

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
LIBRARY_PATH = os.path.join(_PACKAGE, 'libpjrt_aot.so')
_VERSION = 5
_MESSAGE_SIZE = 65536


class _NamedValue(ctypes.Structure):
  """PJRT's: an integer, or the address of text or of integers."""
  _fields_ = [
      ('struct_size', ctypes.c_size_t),
      ('extension_start', ctypes.c_void_p),
      ('name', ctypes.c_char_p),
      ('name_size', ctypes.c_size_t),
      ('type', ctypes.c_int),
      ('value', ctypes.c_int64),
      ('value_size', ctypes.c_size_t),
  ]


class _Options(ctypes.Structure):
  _fields_ = [
      ('library', ctypes.c_char_p),
      ('topology', ctypes.c_char_p),
      ('topology_options', ctypes.POINTER(_NamedValue)),
      ('num_topology_options', ctypes.c_size_t),
      ('host', ctypes.c_int),
      ('one_process', ctypes.c_int),
      ('refuse_reads', ctypes.c_int),
      ('step_limit', ctypes.c_int64),
      ('stop_signal', ctypes.c_int),
  ]


class Device(ctypes.Structure):
  """A device of the topology; `slice` is -1 where there is one only."""
  _fields_ = [
      ('id', ctypes.c_int64),
      ('process', ctypes.c_int),
      ('addressable', ctypes.c_int),
      ('_kind', ctypes.c_void_p),
      ('_kind_size', ctypes.c_size_t),
      ('_coordinates', ctypes.c_int64 * 3),
      ('_num_coordinates', ctypes.c_size_t),
      ('slice', ctypes.c_int64),
  ]

  @property
  def kind(self) -> str:
    return _text(self._kind, self._kind_size)

  @property
  def coordinates(self) -> tuple[int, ...]:
    return tuple(self._coordinates[:self._num_coordinates])


class ProgramFacts(ctypes.Structure):
  """Facts of a program on one device; below 0: not reported.

  Attributes:
    beside: bytes, the most that buffers other than its arguments took when it
      was executed; flops and bytes accessed are what the compiler tells.
  """
  _fields_ = [
      ('flops', ctypes.c_double),
      ('bytes_accessed', ctypes.c_double),
      ('executions', ctypes.c_int64),
      ('beside', ctypes.c_int64),
  ]


class Counters(ctypes.Structure):
  """Counts of the events in this process so far."""
  _fields_ = [
      ('steps', ctypes.c_int64),
      ('executions', ctypes.c_int64),
      ('reads', ctypes.c_int64),
      ('refused', ctypes.c_int64),
      ('buffers', ctypes.c_int64),
  ]


@functools.lru_cache(maxsize=None)
def _library() -> ctypes.CDLL:
  """Loads the plugin that compiles ahead of time."""
  try:
    library = ctypes.CDLL(LIBRARY_PATH)
  except OSError as e:
    raise AotError(f'the plugin that compiles ahead of time cannot be loaded: '
                   f'{e}; install torch_xla again') from e
  if library.PjrtAot_Version() != _VERSION:
    raise AotError(
        f'{LIBRARY_PATH} is of version {library.PjrtAot_Version()}, and '
        f'{_VERSION} is needed: install torch_xla again')
  library.PjrtAot_LastProgram.restype = ctypes.c_int64
  library.PjrtAot_EndStep.restype = ctypes.c_int64
  library.PjrtAot_GetExecutions.restype = ctypes.c_size_t
  return library


def open_topology(settings: Settings, name: TopologyName,
                  stop_signal: int) -> None:
  """Opens the compiler's plugin and the topology, before the runtime is up.

  Args:
    stop_signal: sent to this process at each execution after the last step but
      the first, which a script may take for an error and go on; 0: none.
  """
  values = [_named_value(*option) for option in name.options.items()]
  options = _Options(
      library=os.fsencode(settings.compiler),
      topology=name.for_library.encode(),
      topology_options=(_NamedValue * len(values))(*(v for v, _ in values)),
      num_topology_options=len(values),
      host=settings.host,
      one_process=settings.one_process,
      refuse_reads=settings.strict,
      step_limit=settings.steps,
      stop_signal=stop_signal)
  message = ctypes.create_string_buffer(_MESSAGE_SIZE)
  if _library().PjrtAot_Open(
      ctypes.byref(options), message, ctypes.c_size_t(_MESSAGE_SIZE)):
    raise AotError(message.value.decode(errors='replace'))


def _named_value(name: str, value: Any) -> tuple[_NamedValue, Any]:
  """A string, an integer or integers as PJRT has them, and the memory of it."""
  type_, size, memory = 1, 1, None
  if isinstance(value, str):
    type_, size, memory = 0, len(value), ctypes.create_string_buffer(
        value.encode())
  elif isinstance(value, tuple):
    type_, size, memory = 2, len(value), (ctypes.c_int64 * len(value))(*value)
  return _NamedValue(
      ctypes.sizeof(_NamedValue), None, name.encode(), len(name), type_,
      value if memory is None else ctypes.addressof(memory), size), memory


def platform() -> tuple[str, str]:
  """The name and the version of the compiler's platform."""
  name, version = ctypes.c_void_p(), ctypes.c_void_p()
  name_size, version_size = ctypes.c_size_t(), ctypes.c_size_t()
  if _library().PjrtAot_Platform(
      ctypes.byref(name), ctypes.byref(name_size), ctypes.byref(version),
      ctypes.byref(version_size)):
    raise AotError('no topology is open')
  return _text(name, name_size.value), _text(version, version_size.value)


def devices() -> Iterator[Device]:
  """The devices of the topology, sorted by id; none before it is open."""
  for position in itertools.count():
    device = Device()
    if _library().PjrtAot_GetDevice(
        ctypes.c_size_t(position), ctypes.byref(device)):
      return
    yield device


def _text(start: Any, size: int) -> str:
  return ctypes.string_at(start, size).decode(errors='replace')


def set_memory_limit(nbytes: int) -> None:
  """Sets the memory that devices report from here on; 0: none."""
  _library().PjrtAot_SetMemoryLimit(ctypes.c_int64(nbytes))


def last_program() -> Optional[int]:
  """The number of the program that this thread last had compiled."""
  number = _library().PjrtAot_LastProgram()
  return None if number < 0 else number


def set_donated(number: int, positions: Sequence[int]) -> None:
  """Sets the arguments that a program writes over, before it is executed."""
  if _library().PjrtAot_SetDonated(
      ctypes.c_int64(number), (ctypes.c_int64 * len(positions))(*positions),
      ctypes.c_size_t(len(positions))):
    raise KeyError(number)


def program_facts(number: int) -> ProgramFacts:
  """The facts of a program, also after its executable is gone."""
  found = ProgramFacts()
  if _library().PjrtAot_GetProgram(ctypes.c_int64(number), ctypes.byref(found)):
    raise KeyError(number)
  return found


def executions() -> Iterator[tuple[int, int]]:
  """Each execution in order: its program, and how many steps had ended."""
  first, capacity = 0, 4096
  programs, steps = ((ctypes.c_int64 * capacity)() for _ in range(2))
  while True:
    count = _library().PjrtAot_GetExecutions(
        ctypes.c_int64(first), programs, steps, ctypes.c_size_t(capacity))
    yield from zip(programs[:count], steps[:count])
    if count < capacity:
      return
    first += count


def end_step() -> int:
  """Ends the step, if anything was executed in it; how many have ended."""
  return _library().PjrtAot_EndStep()


def counters() -> Counters:
  found = Counters()
  _library().PjrtAot_GetCounters(ctypes.byref(found))
  return found
