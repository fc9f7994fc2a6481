"""Programs as they go to a compiler, and the options that go with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
import contextlib
import ctypes
import dataclasses
from typing import Any

from ..shared.hlo import messages
from ..shared.hlo.compile_options import Partitioner
from ..shared.hlo.protos import CompileOptionsProto
from . import structs

HLO, MLIR = 'hlo', 'mlir'


@dataclasses.dataclass(frozen=True)
class Program:
  """A program as it goes to a compiler.

  Attributes:
    code: a serialised HloModuleProto, or StableHLO.
    format: 'hlo' or 'mlir'.
    options: a serialised CompileOptionsProto.
  """
  code: bytes
  format: str
  options: bytes

  @contextlib.contextmanager
  def as_arguments(self) -> Iterator[dict[str, Any]]:
    """The arguments of a compiling function, while in the block."""
    code, form, options = (
        ctypes.create_string_buffer(part, max(1, len(part)))
        for part in (self.code, self.format.encode(), self.options))
    program = structs.make(
        'Program',
        room=False,
        code=ctypes.addressof(code),
        code_size=len(self.code),
        format=ctypes.addressof(form),
        format_size=len(self.format))
    yield {
        'program': ctypes.addressof(program),
        'compile_options': ctypes.addressof(options),
        'compile_options_size': len(self.options),
    }


def compile_options(device_ids: Sequence[int],
                    partitioner: Partitioner = Partitioner.NONE) -> bytes:
  """The options for one replica with a partition on each device."""
  message = messages.make(CompileOptionsProto)
  build = message.executable_build_options
  build.num_replicas, build.num_partitions = 1, len(device_ids)
  build.use_spmd_partitioning = partitioner is not Partitioner.NONE
  build.use_shardy_partitioner = partitioner is Partitioner.SHARDY
  assignment = build.device_assignment
  assignment.replica_count = 1
  assignment.computation_count = len(device_ids)
  for device in device_ids:
    assignment.computation_devices.add().replica_device_ids.append(device)
  return message.SerializeToString(deterministic=True)


def replica_options(device_ids: Sequence[int]) -> bytes:
  """The options for one partition with a replica on each device."""
  message = messages.make(CompileOptionsProto)
  build = message.executable_build_options
  build.num_replicas, build.num_partitions = len(device_ids), 1
  assignment = build.device_assignment
  assignment.replica_count = len(device_ids)
  assignment.computation_count = 1
  assignment.computation_devices.add().replica_device_ids.extend(device_ids)
  return message.SerializeToString(deterministic=True)
