"""Programs written to files after each stage of their way.

TORCH_XLA_SHARDY_DUMP names the directory; docs/door.md shows what is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
import contextlib
import contextvars
import os
from pathlib import Path
from typing import Optional, Union

from . import messages
from .protos import HloModuleProto

VARIABLE = 'TORCH_XLA_SHARDY_DUMP'


class _Files:
  """The files of one program: a stage that changes nothing has none."""

  def __init__(self, folder: Path, text_of: Callable[[bytes], str]):
    self._folder = folder
    self._text_of = text_of
    self._last = b''
    self._count = 0

  def write(self, stage: str, program: bytes, program_format: str) -> None:
    if program == self._last:
      return
    self._last = program
    path = self._folder / f'{self._count:02}.{stage}'
    self._count += 1
    if program_format not in messages.HLO_FORMATS:
      path.with_name(f'{path.name}.{program_format}').write_bytes(program)
      return
    if program_format != 'hlo' and (parsed := messages.parse_compiled(
        program, program_format)):
      program = parsed[1].SerializeToString()
    try:
      path.with_name(f'{path.name}.hlo').write_text(self._text_of(program))
    except (RuntimeError, ValueError):  # No printer takes it.
      path.with_name(f'{path.name}.hlo.pb').write_bytes(program)


# The files of the program that is being compiled in this context.
_files: contextvars.ContextVar[Optional[_Files]] = contextvars.ContextVar(
    'files', default=None)


@contextlib.contextmanager
def program(number: int, text_of: Callable[[bytes], str]) -> Iterator[None]:
  """Writes the stages of a program in the block, if they are asked for.

  Args:
    number: of the program in this process.
    text_of: prints a serialised HloModuleProto.
  """
  directory = os.environ.get(VARIABLE)
  if not directory:
    yield
    return
  folder = Path(directory) / f'{os.getpid()}-{number:03}'
  folder.mkdir(parents=True, exist_ok=True)
  token = _files.set(_Files(folder, text_of))
  try:
    yield
  finally:
    _files.reset(token)


def stage(name: str,
          program: Union[HloModuleProto, bytes, Callable[[], str]],
          program_format: str = 'hlo') -> None:
  """Writes the program that is being compiled, as it is after a stage."""
  if (files := _files.get()) is None:
    return
  if callable(program):
    program = program().encode()
  elif not isinstance(program, bytes):
    program = program.SerializeToString()
  files.write(name, program, program_format)
