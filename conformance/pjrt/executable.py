"""Programs that are compiled, and what they tell of themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
import contextlib
import ctypes
import dataclasses
import functools
from typing import Optional

from . import structs
from .buffer import Buffer
from .table import PjrtError, Table, text


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
    for of_device in self.outputs:
      for buffer in of_device:
        buffer.destroy()


@dataclasses.dataclass(frozen=True)
class Loaded:
  """A program that is compiled and loaded."""
  table: Table
  address: int

  @contextlib.contextmanager
  def executable(self) -> Iterator[int]:
    got = self.table.call(
        'LoadedExecutable_GetExecutable', loaded_executable=self.address)
    try:
      yield got.executable
    finally:
      self.table.call('Executable_Destroy', executable=got.executable)

  def num_outputs(self) -> int:
    with self.executable() as executable:
      return self.table.call(
          'Executable_NumOutputs', executable=executable).num_outputs

  def start(self,
            arguments: Sequence[Sequence[Buffer]],
            outputs: int = 1,
            undonated: Sequence[int] = ()) -> Execution:
    """Runs the program.

    Args:
      arguments: of each device.
      outputs: how many each device gives.
      kept: arguments that must not be donated.

    Raises:
      PjrtError: the plugin's, of the call.
    """
    call, get_execution = self.prepared(arguments, outputs, undonated)
    self.table.call_with('LoadedExecutable_Execute', call)
    return get_execution()

  def prepared(
      self,
      arguments: Sequence[Sequence[Buffer]],
      outputs: int = 1,
      undonated: Sequence[int] = ()
  ) -> tuple[ctypes.Structure, Callable[[], Execution]]:
    """The arguments of an execution as `start` begins it, for another caller.

    Returns:
      The struct, and what gives the execution when the call was made; the
      struct is good for as long as that is kept.
    """
    devices, count = len(arguments), len(arguments[0])
    lists = [(ctypes.c_void_p * max(1, count))(*(b.address
                                                 for b in of_device))
             for of_device in arguments]
    results = [(ctypes.c_void_p * max(1, outputs))() for _ in range(devices)]
    events = (ctypes.c_void_p * devices)()
    numbers = (ctypes.c_int64 * max(1, len(undonated)))(*undonated)
    options = structs.make(
        'ExecuteOptions',
        non_donatable_input_indices=ctypes.addressof(numbers),
        num_non_donatable_input_indices=len(undonated))
    argument_lists = _pointers_to(lists)
    output_lists = _pointers_to(results)
    call = structs.make(
        'LoadedExecutable_Execute',
        executable=self.address,
        options=ctypes.addressof(options),
        argument_lists=ctypes.addressof(argument_lists),
        num_devices=devices,
        num_args=count,
        output_lists=ctypes.addressof(output_lists),
        device_complete_events=ctypes.addressof(events))

    def get_execution(*_: object) -> Execution:
      return Execution(
          self.table,
          [[Buffer(self.table, address)
            for address in of_device[:outputs]]
           for of_device in results], tuple(events))

    # What the struct points to goes with the function.
    return call, functools.partial(get_execution, lists, numbers, options,
                                   argument_lists, output_lists)

  def execute(
      self,
      arguments: Sequence[Sequence[Buffer]],
      outputs: int = 1,
      undonated: Sequence[int] = ()) -> list[list[Buffer]]:
    """Runs the program as `start` does, and waits for it.

    Returns:
      The outputs of each device, which the caller destroys.

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

  def destroy(self) -> None:
    self.table.call('LoadedExecutable_Destroy', executable=self.address)


def serialize(table: Table, executable: int) -> bytes:
  answer = table.call('Executable_Serialize', executable=executable)
  data = ctypes.string_at(answer.serialized_bytes, answer.serialized_bytes_size)
  ctypes.CFUNCTYPE(None, ctypes.c_void_p)(answer.serialized_executable_deleter)(
      answer.serialized_executable)
  return data


def optimized_program(table: Table, executable: int) -> tuple[bytes, str]:
  """The compiled program, and its format."""
  program = structs.make('Program', room=False)
  where = ctypes.addressof(program)
  table.call(
      'Executable_OptimizedProgram', executable=executable, program=where)
  code = (ctypes.c_char * max(1, program.code_size))()
  program.code = ctypes.addressof(code)
  table.call(
      'Executable_OptimizedProgram', executable=executable, program=where)
  return bytes(code[:program.code_size]), text(program.format,
                                               program.format_size)


def _pointers_to(arrays: Sequence[ctypes.Array]) -> ctypes.Array:
  return (ctypes.c_void_p * len(arrays))(*map(ctypes.addressof, arrays))
