"""Runs scripts for TPUs that are not there, by the tool and as a user would."""

from __future__ import annotations

from collections.abc import Sequence
import os
from pathlib import Path
import sys
import tempfile

# The tool's modules are torch_xla's, which says so when it has to choose.
os.environ.setdefault('PJRT_DEVICE', 'CPU')

from torch_xla.shardy.aot.report import AotReport
from torch_xla.shardy.aot.reporting import json_form

from .errors import BenchmarkError
from .processes import clean_environment, run_process

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / 'benchmarks' / 'scripts'
# 1: something is found, such as too little memory.
_STATUSES = (0, 1)


def run(script: Path, arguments: Sequence[str], topologies: Sequence[str],
        shardy: bool, seconds: float) -> tuple[AotReport, ...]:
  """The tool's reports, one for each of `topologies`.

  Args:
    shardy: whether Shardy partitions, or GSPMD.
    seconds: for all of them.

  Raises:
    BenchmarkError: there is no report, or not all of them.
  """
  where = f'{script.name} {" ".join(arguments)} for {", ".join(topologies)}'
  with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / 'report.json'
    run_process(
        [
            sys.executable, '-m', 'torch_xla.shardy', 'aot',
            *(f'--topology={name}' for name in topologies), f'--json={file}',
            str(script), *arguments
        ],
        {
            **clean_environment(),
            'XLA_USE_SHARDY': str(int(shardy)),
            # For what scripts take from examples/.
            'PYTHONPATH': str(ROOT)
        },
        where,
        seconds,
        statuses=_STATUSES)
    reports = json_form.read(file)
  if len(reports) != len(topologies):
    raise BenchmarkError(f'{where}: only {len(reports)} reports')
  return reports
