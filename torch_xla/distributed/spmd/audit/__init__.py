"""Compares a sharding policy with what runs, down to the compiled program.

>>> from torch_xla.distributed.spmd.policy import ShardingPolicy
>>> from torch_xla.distributed.spmd.audit import audit
>>> policy = ShardingPolicy.load('policy.toml')
>>> policy.apply(model, mesh)
>>> step(model); torch_xla.sync()
>>> print(audit(model, policy, tolerance=64 << 20))

For each parameter and buffer there are four stages: what the policy says, what
`xs.mark_sharding` was told, what the tensor is stored as, and how the compiled
programs that used it take it. A stage that cannot be seen says why, and never
counts as agreement: compiled programs are seen with `XLA_USE_SHARDY=1`.

From a shell:

$ torch-xla-shardy audit script.py
"""

from __future__ import annotations

import os
from typing import Optional, TYPE_CHECKING, Union

if TYPE_CHECKING:
  import torch
  from torch_xla.distributed.spmd.policy import ShardingPolicy

from . import folding
from .examination import AuditReport, examine
from .golden import GoldenFileError
from .report import Difference, Kind

__all__ = [
    'AuditError', 'Difference', 'GoldenFileError', 'Kind', 'AuditReport',
    'audit', 'examine'
]

# What an AuditError's text lists; its report has all.
_LISTED = 20


class AuditError(AssertionError):
  """An audit that found differences.

  Attributes:
    report: all of it.
  """

  def __init__(self, report: AuditReport):
    causes = folding.causes(report.differences)
    lines = [f'  {cause}' for cause in causes[:_LISTED]]
    rest = len(causes) - _LISTED
    if rest > 0:
      lines.append(f'  and {rest} more')
    super().__init__(f'the audit found {len(report.differences)} '
                     'difference(s):\n' + '\n'.join(lines))
    self.report = report


def audit(model: torch.nn.Module,
          policy: Optional[ShardingPolicy] = None,
          *,
          tolerance: Union[int, str, None] = None,
          golden: Optional[Union[str, os.PathLike]] = None) -> AuditReport:
  """Calls `examine`, and raises an exception if that finds a difference.

  Raises:
    AuditError: there is a difference; its `report` says all that was found.
    PolicyError, GoldenFileError: as for `examine`.
  """
  report = examine(model, policy, tolerance=tolerance, golden=golden)
  if not report.ok:
    raise AuditError(report)
  return report
