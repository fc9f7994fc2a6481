"""A compiler that does not say how much memory there is, as libtpu 0.0.21."""

from __future__ import annotations

import ahead_of_time
import processes
import pytest
from torch_xla.shardy.aot.report import AotReport
from torch_xla.shardy.aot.topologies import GENERATIONS
from torch_xla.shardy.gate import sizes

ENVIRONMENT = {}  # Beside the tests that need no child.


def without_words(script: str) -> AotReport:
  from torch_xla.shardy.aot.running import capacity
  capacity.available = lambda refusal: None
  return ahead_of_time.run(script, (), 'v5e:2x2', {})


@pytest.mark.nightly
def test_it_is_what_other_versions_say() -> None:
  report = processes.call(without_words, 'train.py', PJRT_DEVICE='TPU').value
  assert report.fits and not report.topology.memory_told
  assert 'is taken to have 15.75 GiB' in report.findings[0]


@pytest.mark.slow
def test_a_compiler_that_says_it_agrees() -> None:
  """The one that has to be told, and is."""
  told = ahead_of_time.report_of('ends.py', 'exit', topology='v6e:2x2')[0]
  assert told.topology.memory_told
  v6e, = (g for g in GENERATIONS if g.name == 'v6e')
  assert told.topology.memory == sizes.parse(v6e.memory)
