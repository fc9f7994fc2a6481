"""The tool's own cost is measured; nothing here looks at times."""

from benchmarks.aot_cost import Cost, measure, print_costs
import pytest


@pytest.mark.nightly
def test_the_smallest_run_is_measured(capsys):
  cost = measure('v5e:2x2', 1, ('--width', '64', '--heads', '4', '--vocabulary',
                                '128', '--length', '16'))
  assert (cost.chips, cost.layers, cost.programs) == (4, 1, 2)
  # What is part of something is less.
  assert 0 < cost.own_cpu < cost.compile_cpu < cost.cpu
  assert cost.wall > 0 and cost.memory > 2**28
  print_costs([cost])
  assert f'{cost.own_cpu / cost.compile_cpu:.1%}' in capsys.readouterr().out


def test_what_is_printed(capsys):
  print_costs([Cost(4, 1, 2, 9., 12.4, 2**29, 10., .5)])
  last = capsys.readouterr().out.strip().splitlines()[-1]
  assert last.replace('|', ' ').split() == [
      '1', '4', '2', '9', '12', '0.50', '10.0', '0.50', '5.0%'
  ]
