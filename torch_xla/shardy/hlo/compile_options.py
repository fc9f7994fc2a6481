"""Reads and sets who partitions a program, in XLA's CompileOptionsProto."""

import dataclasses
import enum

from . import messages
from .protos import CompileOptionsProto


class Partitioner(enum.Enum):
  """Who splits a program over devices; NONE: it is not split."""
  NONE = 'none'
  GSPMD = 'gspmd'
  SHARDY = 'shardy'


@dataclasses.dataclass(frozen=True)
class CompileOptions:
  """The part of a program's compile options that says how it is spread out."""
  partitioner: Partitioner
  num_replicas: int
  num_partitions: int


def read(options: bytes) -> CompileOptions:
  """Reads a serialised CompileOptionsProto.

  Raises:
    ValueError: `options` is damaged.
  """
  build = messages.parse(CompileOptionsProto, options).executable_build_options
  if not build.use_spmd_partitioning:
    partitioner = Partitioner.NONE
  elif build.use_shardy_partitioner:
    partitioner = Partitioner.SHARDY
  else:
    partitioner = Partitioner.GSPMD
  return CompileOptions(partitioner, build.num_replicas, build.num_partitions)


def with_partitioner(options: bytes,
                     partitioner: Partitioner,
                     is_untupled: bool = False) -> bytes:
  """A copy of `options` with `partitioner` chosen, all else kept.

  Options of a program that is not partitioned, or that already name
  `partitioner`, come back as the same bytes.

  Args:
    is_untupled: the program takes each parameter by itself, not as one tuple.
  """
  if partitioner is Partitioner.NONE:
    raise ValueError('cannot turn partitioning off; choose GSPMD or SHARDY')
  is_kept = read(options).partitioner in (Partitioner.NONE, partitioner)
  if is_kept and not is_untupled:
    return options
  message = messages.parse(CompileOptionsProto, options)
  if not is_kept:
    message.executable_build_options.use_shardy_partitioner = (
        partitioner is Partitioner.SHARDY)
  if is_untupled:
    message.parameter_is_tupled_arguments = False
  return message.SerializeToString(deterministic=True)
