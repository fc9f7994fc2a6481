"""One audit, from a model to a report."""

from __future__ import annotations

import dataclasses
import os
from typing import Optional, Union

import numpy as np
import torch
import torch_xla
from torch_xla.distributed.spmd import policy as spmd_policy

from . import differences, golden as golden_file
from .collect import Collector
from .report import AuditReport, Totals


class NotAppliedError(RuntimeError):
  """No policy was applied to the model, so there is nothing to compare."""


def examine(model: torch.nn.Module,
            policy: spmd_policy.ShardingPolicy,
            *,
            tolerance: Optional[int] = None,
            golden: Optional[Union[str, os.PathLike]] = None) -> AuditReport:
  """`torch_xla.distributed.spmd.audit.examine`, which says more."""
  applied = spmd_policy.applied_to(model)
  if applied is None:
    raise NotAppliedError(
        'no policy was applied to this model: call policy.apply(model, mesh) '
        'before the first step')
  kept = None if golden is None else golden_file.read(golden)
  collector = Collector(model, policy, applied)
  tensors, problems = collector.tensors()
  boundaries, boundary_problems = collector.boundaries()
  mesh = applied.mesh
  report = AuditReport(
      mode=torch_xla.shardy.current_mode().value,
      mesh=tuple(spmd_policy.axes(mesh).items()),
      devices=tuple(np.asarray(mesh.device_ids).reshape(-1).tolist()),
      tensors=tensors,
      boundaries=boundaries,
      programs=collector.programs(),
      counts=collector.counts(),
      totals=Totals(
          len(tensors), sum(row.nbytes for row in tensors),
          sum(row.local_nbytes for row in tensors),
          sum(row.replicated_nbytes for row in tensors), tolerance))
  found = differences.find(report, [*problems, *boundary_problems])
  if kept is not None:
    found += golden_file.compare(report, kept)
  return dataclasses.replace(report, differences=found)
