"""Checks that a process was started as torch_xla needs it, and its devices.

The contract: runtime flags before torch_xla is imported, SPMD before any XLA
tensor, plugin and mode before the runtime. `check()` looks at this process and
starts nothing; `probe()` runs on every device and compares numbers. From a
shell, `torch-xla-shardy doctor` does both before anything else runs.

>>> import torch_xla
>>> from torch_xla.shardy import doctor
>>> print(doctor.check())
"""

from . import device_probe
from .contract import check
from .device_probe import probe
from .report import Finding, Diagnosis, Status

__all__ = ['Finding', 'Diagnosis', 'Status', 'check', 'diagnose', 'probe']


def diagnose(probe: bool = True) -> Diagnosis:
  """The findings of `check()` and, with `probe`, of `probe()` after it.

  Args:
    probe: whether to run on the devices too, which starts the runtime.
  """
  report = check()
  return report + device_probe.probe() if probe else report
