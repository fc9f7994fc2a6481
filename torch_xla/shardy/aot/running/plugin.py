"""Python's side of libpjrt_aot.so, the plugin that compiles and does not run.

The C side is documented in csrc/pjrt_aot/pjrt_aot.h.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
import ctypes
from ctypes import c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p
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
  _fields_ = [('struct_size', c_size_t), ('extension_start', c_void_p),
              ('name', c_char_p), ('name_size', c_size_t), ('type', c_int),
              ('value', c_int64), ('value_size', c_size_t)]


class _Options(ctypes.Structure):
  _fields_ = [('library', c_char_p), ('topology', c_char_p),
              ('topology_options', ctypes.POINTER(_NamedValue)),
              ('num_topology_options', c_size_t), ('host', c_int),
              ('one_process', c_int), ('refuse_reads', c_int),
              ('step_limit', c_int64), ('stop_signal', c_int)]


class Device(ctypes.Structure):
  """A device of the topology; `slice` is -1 where there is one only."""
  _fields_ = [('id', c_int64), ('process', c_int), ('addressable', c_int),
              ('_kind', c_void_p), ('_kind_size', c_size_t),
              ('_coordinates', c_int64 * 3), ('_num_coordinates', c_size_t),
              ('slice', c_int64)]

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
  _fields_ = [('flops', c_double), ('bytes_accessed', c_double),
              ('executions', c_int64), ('beside', c_int64)]


class Counters(ctypes.Structure):
  """Counts of the events in this process so far."""
  _fields_ = [(name, c_int64) for name in ('steps', 'executions', 'reads',
                                           'refused', 'buffers')]


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
  library.PjrtAot_LastProgram.restype = c_int64
  library.PjrtAot_EndStep.restype = c_int64
  library.PjrtAot_GetExecutions.restype = c_size_t
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
      ctypes.byref(options), message, c_size_t(_MESSAGE_SIZE)):
    raise AotError(message.value.decode(errors='replace'))


def _named_value(name: str, value: Any) -> tuple[_NamedValue, Any]:
  """A string, an integer or integers as PJRT has them, and the memory of it."""
  type_, size, memory = 1, 1, None
  if isinstance(value, str):
    type_, size, memory = 0, len(value), ctypes.create_string_buffer(
        value.encode())
  elif isinstance(value, tuple):
    type_, size, memory = 2, len(value), (c_int64 * len(value))(*value)
  return _NamedValue(
      ctypes.sizeof(_NamedValue), None, name.encode(), len(name), type_,
      value if memory is None else ctypes.addressof(memory), size), memory


def platform() -> tuple[str, str]:
  """The name and the version of the compiler's platform."""
  name, version = c_void_p(), c_void_p()
  name_size, version_size = c_size_t(), c_size_t()
  if _library().PjrtAot_Platform(
      ctypes.byref(name), ctypes.byref(name_size), ctypes.byref(version),
      ctypes.byref(version_size)):
    raise AotError('no topology is open')
  return _text(name, name_size.value), _text(version, version_size.value)


def devices() -> Iterator[Device]:
  """The devices of the topology, sorted by id; none before it is open."""
  for position in itertools.count():
    device = Device()
    if _library().PjrtAot_GetDevice(c_size_t(position), ctypes.byref(device)):
      return
    yield device


def _text(start: Any, size: int) -> str:
  return ctypes.string_at(start, size).decode(errors='replace')


def set_memory_limit(nbytes: int) -> None:
  """Sets the memory that devices report from here on; 0: none."""
  _library().PjrtAot_SetMemoryLimit(c_int64(nbytes))


def last_program() -> Optional[int]:
  """The number of the program that this thread last had compiled."""
  number = _library().PjrtAot_LastProgram()
  return None if number < 0 else number


def set_donated(number: int, positions: Sequence[int]) -> None:
  """Sets the arguments that a program writes over, before it is executed."""
  if _library().PjrtAot_SetDonated(
      c_int64(number), (c_int64 * len(positions))(*positions),
      c_size_t(len(positions))):
    raise KeyError(number)


def program_facts(number: int) -> ProgramFacts:
  """The facts of a program, also after its executable is gone."""
  found = ProgramFacts()
  if _library().PjrtAot_GetProgram(c_int64(number), ctypes.byref(found)):
    raise KeyError(number)
  return found


def executions() -> Iterator[tuple[int, int]]:
  """Each execution in order: its program, and how many steps had ended."""
  first, capacity = 0, 4096
  programs, steps = ((c_int64 * capacity)() for _ in range(2))
  while True:
    count = _library().PjrtAot_GetExecutions(
        c_int64(first), programs, steps, c_size_t(capacity))
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
