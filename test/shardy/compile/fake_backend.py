"""A compilation without a backend, for what stands before one."""

from __future__ import annotations

from collections.abc import Sequence
import time
from typing import Optional, Union

from torch_xla.shardy.door.memory import Memory
from torch_xla.shardy.errors import BackendCompileError
from torch_xla.shardy.hlo import messages, protos

# What a backend makes of a program, and in which format; or why it does not.
Made = Union[tuple[bytes, str], BackendCompileError]


def options_of(num_partitions: int = 8, spmd: bool = True) -> bytes:
  """Options as torch_xla fills them."""
  message = messages.make(protos.CompileOptionsProto)
  build = message.executable_build_options
  build.num_replicas, build.num_partitions = 1, num_partitions
  build.use_spmd_partitioning = spmd
  return message.SerializeToString()


def made_of(*parameters: bytes) -> Made:
  """A compiled program with these shardings of its parameters."""
  module = messages.make(
      protos.HloModuleProto, name='made', spmd_parameters_shardings=parameters)
  return module.SerializeToString(), 'hlo'


class FakeCompilation:
  """A program that the runtime wants compiled.

  Attributes:
    handed_on: programs and options that the backend got, in order.
    formats: the formats of these programs.
    answers: what the runtime is given in place of the compiled program, and in
      which format.
  """

  def __init__(self,
               made: Sequence[Made] = (made_of(), made_of()),
               program: bytes = b'sent',
               program_format: str = 'hlo',
               options: Optional[bytes] = None,
               seconds: float = 0.,
               kept: Optional[set[int]] = None):
    """Hands a program to a backend that answers as it is told.

    Args:
      made: what the backend makes of what it is handed, in order.
      seconds: what it takes each time.
      kept: the numbers of what the runtime has dropped.
    """
    self.program = program
    self.format = program_format
    self.options = options_of() if options is None else options
    self.handed_on: list[tuple[bytes, bytes]] = []
    self.formats: list[str] = []
    self.answers: list[tuple[bytes, str]] = []
    self._made = made
    self._seconds = seconds
    self._kept = set() if kept is None else kept

  def reuse(self, number: int) -> bool:
    return number in self._kept

  def keep(self, number: int) -> None:
    """Keeps it, as if the runtime dropped at once what it gets."""
    self._kept.add(number)

  def compile(self,
              program: bytes,
              options: bytes,
              program_format: Optional[str] = None) -> None:
    self.handed_on.append((program, options))
    self.formats.append(program_format or self.format)
    time.sleep(self._seconds)
    self._check()

  def compiled_program(self) -> tuple[bytes, str]:
    return self._check()

  def memory(self) -> Optional[Memory]:
    return None

  def set_optimized_program(self, program: bytes, program_format: str) -> None:
    self.answers.append((program, program_format))

  def _check(self) -> tuple[bytes, str]:
    made = self._made[len(self.handed_on) - 1]
    if isinstance(made, BackendCompileError):
      raise made
    return made
