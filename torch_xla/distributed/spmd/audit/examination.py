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

from . import baseline, differences, golden as golden_file, page, table
from .collect import Collector
from .report import Difference, Kind, Report, Totals


class AuditReport(Report):
  """The results of an audit: `str` is a table, `to_html` a page."""

  def to_html(self) -> str:
    """One HTML page that needs nothing else."""
    return page.html(self)

  def __str__(self) -> str:
    return table.text(self)


def examine(
    model: torch.nn.Module,
    policy: Optional[spmd_policy.ShardingPolicy] = None,
    *,
    tolerance: Union[int, str, None] = None,
    golden: Optional[Union[str, os.PathLike]] = None,
    require: Sequence[Requirement] = (),
    tied: Iterable[Sequence[str]] = ()
) -> AuditReport:
  """Gathers and compares; runs nothing and reads no data.

  Differences are: a tensor that the policy does not fit, that was never marked,
  or whose mark, storage or compiled sharding is another than the policy says; a
  boundary without its hook or its constraint; a program that Shardy was to
  partition and GSPMD did; more replicated bytes than allowed; a value that is
  not what it was in the golden file; a moment of an optimizer that does not lie
  as its weight does; a split weight of which a whole copy lives as well; and no
  program at all. Programs count from
  `policy.apply` on, where that was called.

  Args:
    model: after at least one step and `torch_xla.sync()`.
    policy: what it is held to; None: the one that was applied to it, and where
      none was the one that it has, as `ShardingPolicy.capture` reads it. Then
      what differs is what is stored or compiled otherwise than it is marked.
    tolerance: bytes that all devices together may hold beyond one copy of each
      tensor, or a percentage of one copy of all, as '2%'; None: no limit.
    golden: the path of a golden file that the report has to equal, in all but
      counts: the `to_json()` of an earlier report.
    require: what else the report has to keep.
    tied: names that one weight had before the model was moved, where that is
      known; models of transformers say so themselves.

  Raises:
    GoldenFileError: the golden file cannot be read.
    ValueError: `tolerance` is neither bytes nor a percentage.
    PolicyError: no policy was applied, and the model is on no mesh that is
      known, or split as no policy says.
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
  all_differences += tuple(
      Difference(Kind.REQUIREMENT, requirement.quantity.name, text)
      for requirement in require
      if (text := requirement.check(report)))
  if expected is not None:
    all_differences += tuple(
        golden_file.differences(expected, report.to_dict()))
  return dataclasses.replace(report, differences=all_differences)
