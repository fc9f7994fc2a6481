"""Programs that are compiled, and what they tell of themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
import contextlib
import ctypes
import dataclasses
from typing import Any, Optional

from . import structs
from .buffer import Buffer, destroy, Handle
from .table import PjrtError, Table, text

Arguments = Sequence[Sequence[Buffer]]


@dataclasses.dataclass(frozen=True)
class Execution:
  """An execution that has begun.

  Attributes:
    outputs: of each device; the caller destroys them.
    events: of each device: it is done, or has failed.
  """
  table: Table
  outputs: list[list[Buffer]]
  events: tuple[int, ...]

  def wait(self) -> None:
    """Waits for all devices, once.

    Raises:
      PjrtError: of the first that failed.
    """
    failed: Optional[PjrtError] = None
    for event in self.events:
      try:
        self.table.await_event(event)
      except PjrtError as e:
        failed = failed or e
    if failed:
      raise failed

  def destroy(self) -> None:
    """Destroys the outputs."""
    destroy(sum(self.outputs, []))


@dataclasses.dataclass(frozen=True)
class Loaded(Handle):
  """A program that is compiled and loaded."""
  KIND, FIELD = 'LoadedExecutable', 'executable'

  @contextlib.contextmanager
  def executable(self) -> Iterator[int]:
    got = self.table.call(
        'LoadedExecutable_GetExecutable', loaded_executable=self.address)
    try:
      yield got.executable
    finally:
      self.table.call('Executable_Destroy', executable=got.executable)

  def start(self,
            arguments: Arguments,
            outputs: int = 1,
            undonated: Sequence[int] = ()) -> Execution:
    """Runs the program.

    Args:
      arguments: of each device.
      outputs: how many each device gives.
      undonated: arguments that must not be donated.

    Raises:
      PjrtError: the plugin's, of the call.
    """
    call, get_execution = self.prepared(arguments, outputs, undonated)
    self.table.call_with('LoadedExecutable_Execute', call)
    return get_execution()

  def prepared(
      self,
      arguments: Arguments,
      outputs: int = 1,
      undonated: Sequence[int] = ()
  ) -> tuple[Any, Callable[[], Execution]]:
    """The arguments of an execution as `start` begins it, for another caller.

    Returns:
      The struct, and what gives the execution when the call was made.
    """
    count = len(arguments)
    results = [(ctypes.c_void_p * max(1, outputs))() for _ in arguments]
    events = (ctypes.c_void_p * count)()
    call = structs.make(
        'LoadedExecutable_Execute',
        executable=self.address,
        options=structs.make(
            'ExecuteOptions', non_donatable_input_indices=tuple(undonated)),
        argument_lists=_pointers_to([
            _pointers(buffer.address
                      for buffer in of_device)
            for of_device in arguments
        ]),
        num_devices=count,
        num_args=len(arguments[0]),
        output_lists=_pointers_to(results),
        device_complete_events=events)

    def get_execution() -> Execution:
      return Execution(
          self.table,
          [[Buffer(self.client, address)
            for address in of_device[:outputs]]
           for of_device in results], tuple(events))

    return call, get_execution

  def execute(
      self,
      arguments: Arguments,
      outputs: int = 1,
      undonated: Sequence[int] = ()) -> list[list[Buffer]]:
    """Runs the program as `start` does, and waits for it.

    Returns:
      The outputs of each device.

    Raises:
      PjrtError: the plugin's, of the call or of what it waited for.
    """
    execution = self.start(arguments, outputs, undonated)
    try:
      execution.wait()
    except PjrtError:
      execution.destroy()
      raise
    return execution.outputs

  def serialized(self) -> bytes:
    with self.executable() as address:
      return serialize(self.table, address)


def serialize(table: Table, executable: int) -> bytes:
  answer = table.call('Executable_Serialize', executable=executable)
  data = ctypes.string_at(answer.serialized_bytes, answer.serialized_bytes_size)
  ctypes.CFUNCTYPE(None, ctypes.c_void_p)(answer.serialized_executable_deleter)(
      answer.serialized_executable)
  return data


def optimized_program(table: Table, executable: int) -> tuple[bytes, str]:
  """The compiled program, and its format."""
  program = structs.make('Program', room=False)

  def ask() -> None:
    table.call(
        'Executable_OptimizedProgram', executable=executable, program=program)

  ask()  # Of the size alone.
  code = (ctypes.c_char * max(1, program.code_size))()
  program.code = ctypes.addressof(code)
  ask()
  return bytes(code[:program.code_size]), text(program.format,
                                               program.format_size)


def _pointers(addresses: Iterable[int]) -> Any:
  listed = list(addresses)
  return (ctypes.c_void_p * max(1, len(listed)))(*listed)


def _pointers_to(arrays: Sequence[Any]) -> Any:
  """An array of the addresses of others, which live as long."""
  pointers = _pointers(map(ctypes.addressof, arrays))
  pointers.held = arrays
  return pointers
