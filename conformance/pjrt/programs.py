"""Programs as they go to a compiler, and the options that go with them."""

from __future__ import annotations

from collections.abc import Sequence
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

  def arguments(self) -> dict[str, Any]:
    """The arguments of a compiling function."""
    return {
        'program':
            structs.make(
                'Program',
                room=False,
                code=self.code,
                format=self.format.encode()),
        'compile_options':
            self.options,
    }


def compile_options(device_ids: Sequence[int],
                    partitioner: Partitioner = Partitioner.NONE,
                    replicas: bool = False) -> bytes:
  """The options for a partition, or a replica, on each device."""
  message = messages.make(CompileOptionsProto)
  build, count = message.executable_build_options, len(device_ids)
  counts = (count, 1) if replicas else (1, count)
  build.num_replicas, build.num_partitions = counts
  build.use_spmd_partitioning = partitioner is not Partitioner.NONE
  build.use_shardy_partitioner = partitioner is Partitioner.SHARDY
  assignment = build.device_assignment
  assignment.replica_count, assignment.computation_count = counts
  for ids in [device_ids] if replicas else [[d] for d in device_ids]:
    assignment.computation_devices.add().replica_device_ids.extend(ids)
  return message.SerializeToString(deterministic=True)
