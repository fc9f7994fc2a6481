"""The measurement of bindings runs; nothing here looks at times."""

import json
import runpy
import sys

from benchmarks.variants import ROOT
import environments
import pytest

_SHARDY = environments.SHARDY


@pytest.mark.slow
@pytest.mark.environment(**_SHARDY)
@pytest.mark.parametrize('way', ['lazy', 'dynamo'])
def test_steps_with_and_without_bindings_are_measured(way, monkeypatch, capfd):
  asked = {'way': way, 'layers': 2, 'warm_up': 2, 'steps': 2, 'pairs': 2}
  folder = ROOT / 'benchmarks' / 'children'
  monkeypatch.setattr(sys, 'argv', ['annotated_step.py', json.dumps(asked)])
  monkeypatch.syspath_prepend(str(folder))
  runpy.run_path(str(folder / 'annotated_step.py'), run_name='__main__')
  report = json.loads(capfd.readouterr().out.splitlines()[-1])
  assert report['partitioners'] == ['shardy']
  assert report['ms'] > 0
  assert report['added_cpu_ms'] != 0
