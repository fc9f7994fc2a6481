"""The measurements of priorities run; here bytes count, and times do not."""

import json
import runpy
import sys

from benchmarks.priority import embedding
from benchmarks.variants import QUICK, ROOT, Wheels
import environments
import pytest

_SHARDY = environments.SHARDY


@pytest.mark.nightly
def test_the_right_priority_moves_half_of_the_bytes_or_less():
  moved = embedding(
      Wheels(print, **QUICK), quick=True, rounds=1, say=print)['moved']
  assert moved['default'] >= 2 * moved['table first'] > 0


@pytest.mark.slow
@pytest.mark.environment(**_SHARDY)
@pytest.mark.parametrize('way', ['lazy', 'dynamo'])
def test_steps_with_and_without_bindings_are_measured(way, monkeypatch, capfd):
  asked = {
      'way': way,
      'layers': 2,
      'priority': True,
      'warm_up': 2,
      'steps': 2,
      'pairs': 2
  }
  folder = ROOT / 'benchmarks' / 'children'
  monkeypatch.setattr(sys, 'argv', ['annotated_step.py', json.dumps(asked)])
  monkeypatch.syspath_prepend(str(folder))
  runpy.run_path(str(folder / 'annotated_step.py'), run_name='__main__')
  report = json.loads(capfd.readouterr().out.splitlines()[-1])
  assert report['partitioners'] == ['shardy']
  assert report['ms'] > 0
  assert report['added_cpu_ms'] != 0
