"""One audit, from a model to a report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
import dataclasses
import os
from typing import Optional, Union

import numpy as np
import torch
import torch_xla
from torch_xla.distributed.spmd import policy as spmd_policy
from torch_xla.distributed.spmd.policy import held
from torch_xla.shardy.gate.requirements import Requirement

from . import baseline, differences, golden as golden_file
from .collect import Collector
from .rendering import AuditReport
from .report import Difference, Kind, Totals


def examine(
    model: torch.nn.Module,
    tied: Iterable[Sequence[str]] = (),
    *,
    policy: Optional[spmd_policy.ShardingPolicy] = None,
    tolerance: Union[int, str, None] = None,
    golden: Optional[Union[str, os.PathLike]] = None,
    require: Sequence[Requirement] = ()
) -> AuditReport:
  """Does the work of `torch_xla.distributed.spmd.audit.examine`.

  Args:
    tied: names that one weight had before the model was moved, where that is
      known; models of transformers say so themselves.
  """
  differences.allowed(tolerance, 0)  # Raises now, and not after all the work.
  standard = baseline.resolve_standard(model, policy)
  expected = None if golden is None else golden_file.read(golden)
  collector = Collector(model, standard)
  tensors, problems = collector.tensors()
  boundaries, boundary_problems = collector.boundaries()
  mesh = standard.mesh
  nbytes = sum(row.nbytes for row in tensors)
  report = AuditReport(
      mode=torch_xla.shardy.current_mode().value,
      policy=standard.origin,
      mesh=tuple(spmd_policy.axes(mesh).items()),
      devices=tuple(np.asarray(mesh.device_ids).reshape(-1).tolist()),
      tensors=tensors,
      boundaries=boundaries,
      programs=collector.programs(),
      counts=collector.counts(),
      totals=Totals(
          len(tensors), nbytes, sum(row.local_nbytes for row in tensors),
          sum(row.replicated_nbytes for row in tensors),
          differences.allowed(tolerance, nbytes)),
      held=collector.held(tensors),
      others=collector.occupancy.others)
  all_differences = differences.find(report, [*problems, *boundary_problems],
                                     held.untied(model, tied))
  for one in require:
    said = one.check(report)
    if said:
      all_differences += (Difference(Kind.REQUIREMENT, one.quantity.name,
                                     said),)
  if expected is not None:
    all_differences += tuple(
        golden_file.differences(expected, report.to_dict()))
  return dataclasses.replace(report, differences=all_differences)
