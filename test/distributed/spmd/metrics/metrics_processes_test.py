"""Values of replicas and of processes that one runtime does not reach."""

from __future__ import annotations

import os
import sys

import environments
from processes import call
import pytest
import torch
import torch_xla
from torch_xla.distributed.spmd import metrics
import torch_xla.runtime as xr

ENVIRONMENT = {}  # Each test in a process of its own.
_DEVICES = environments.DEVICES
_REPLICAS = 4


def _replica(_: int) -> None:
  try:
    metrics.global_sum(torch.ones(2).to('xla'))
  except metrics.LocalValueError as e:
    sys.stdout.write(f'REFUSED {e}\n')  # One write, or the lines mix.


def _launch_replicas() -> None:
  # On few cores torch_xla's pool has fewer threads than there are replicas to
  # wait for one another, in the official wheel too.
  os.environ.update(
      CPU_NUM_DEVICES=str(_REPLICAS), XLA_THREAD_POOL_SIZE=str(4 * _REPLICAS))
  # This process has imported what a new one would have to.
  torch_xla.launch(_replica, start_method='fork')


def test_values_of_replicas_are_refused() -> None:
  output = call(_launch_replicas, **_DEVICES).stdout
  assert output.count('REFUSED the value is one of 4 replicas') == _REPLICAS


@pytest.mark.environment(**_DEVICES, WORLD_SIZE='3')
def test_a_process_on_its_own_is_an_error() -> None:
  xr.use_spmd()
  with pytest.raises(metrics.LocalValueError, match='there are 3 ranks'):
    metrics.global_sum(torch.ones(2).to('xla'))
