"""How fast the command starts, as the benchmark measures it."""

from benchmarks import command_start
import pytest


@pytest.mark.slow
def test_help_costs_little():
  lines = command_start.starts()
  few = {name: lines[name] for name in [*lines][:2]}
  assert [*few][1] == 'torch-xla-shardy --help'
  python, command = map(min, command_start.measured(few, 5).values())
  # Torch takes a hundred times as long; 4 was measured.
  assert command < 15 * python
