"""Audits what a script left when it had ended."""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch_xla
from torch_xla.distributed.spmd.policy import (applied, PolicyError,
                                               ShardingPolicy)
from torch_xla.shardy.annotate.priority import PriorityError
from torch_xla.shardy.gate import junit, requirements
from torch_xla_shardy import terminal
from torch_xla_shardy.parser import write

from . import baseline, folding, quantities, table
from .examination import AuditReport, examine
from .golden import GoldenFileError
from .report import Kind


def finish(options: dict[str, Any], moved: baseline.Moved) -> int:
  """Audits what the script left; the exit status."""
  script = options['script']
  applied_to = applied.kept_models()
  models = ({
      type(m).__name__: m for m in applied_to
  } or baseline.models_in(model for model, _ in moved))
  if not models:
    return _usage(f'{script} left no model on the device xla: the audit is of '
                  'a torch.nn.Module that lives when the script has ended')
  is_one = max(len(models), len(applied_to)) == 1
  if not is_one and (applied_to or options['policy'] or options['capture']):
    return _usage(f'{script} left several models, as {", ".join(models)}, and '
                  'a policy is for one: call audit(model, policy) of '
                  'torch_xla.distributed.spmd.audit in the script')
  torch_xla.sync(wait=True)
  try:
    policy = options['policy'] and ShardingPolicy.load(options['policy'])
    model, tied = baseline.as_one(models, moved)
    report = examine(
        model,
        policy,
        tied=tied,
        tolerance=options['tolerance'],
        golden=options['golden'],
        require=[
            requirements.parse(text, quantities.named)
            for text in options['require']
        ])
    if not options['quiet']:
      terminal.show(str(report))
    elif not report.ok:
      terminal.show('\n'.join(table.verdict(report)))
    for key, text in (('json', report.to_json), ('html', report.to_html),
                      ('capture', lambda: _captured(*models.values()))):
      if options[key]:
        write(options[key], text())
    if options['junit']:
      write(options['junit'], junit.of_checks('audit', _checks(report)))
  except (OSError, PolicyError, PriorityError, GoldenFileError) as e:
    return _usage(str(e))
  return 0 if report.ok else 1


def _checks(report: AuditReport) -> list[junit.Check]:
  causes = folding.causes(report.differences)
  return [
      junit.Check(
          kind.value,
          tuple(f'{c.head}: {c.text}'
                for c in causes
                if c.kind is kind))
      for kind in Kind
  ]


def _captured(model: torch.nn.Module) -> str:
  return ShardingPolicy.capture(model).to_toml()


def _usage(text: str) -> int:
  print(f'audit: {text}', file=sys.stderr)
  return 2
