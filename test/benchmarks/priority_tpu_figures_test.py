"""What priorities change for TPUs is measured, and on models that are right."""

import importlib

from benchmarks.priority_tpu import Case, measure, print_outcomes
import environments
import numpy as np
import pytest
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

_SMALL = {
    'lookup': (),
    'experts': ('--width', '16', '--hidden', '32', '--length', '32',
                '--sequences', '2', '--dtype', 'float32'),
}
_MESHES = {
    'lookup': ((8,), ('data',)),
    'experts': ((1, 8), ('data', 'expert')),
}
_ASSIGNMENTS = [('lookup', 'none'), ('lookup', 'table'), ('lookup', 'tokens'),
                ('experts', 'none'), ('experts', 'experts'),
                ('experts', 'tokens')]
_EIGHT = environments.DEVICES


def _losses(name: str, first: str) -> tuple[list[float], list[float]]:
  """Those of a script over eight devices, and of plain torch on one CPU."""
  script = importlib.import_module(f'benchmarks.scripts.{name}')
  asked = script.options([*_SMALL[name], '--first', first, '--steps', '3'])
  xr.use_spmd()
  shape, axes = _MESHES[name]
  losses = script.train(asked, 8, xs.Mesh(np.arange(8), shape, axes))
  # In this order: autograd has no queue for a device that comes later.
  return losses, script.train(asked, 8, None)


@pytest.mark.slow
@pytest.mark.environment(**_EIGHT, XLA_USE_SHARDY='1')
@pytest.mark.parametrize('name, first', [
    pytest.param(
        *both, marks=[pytest.mark.nightly] * (both != ('lookup', 'table')))
    for both in _ASSIGNMENTS
])
def test_priorities_do_not_change_the_numbers(name, first):
  losses, alone = _losses(name, first)
  assert losses == pytest.approx(alone, rel=1e-4)
  # Something is learned, or this compares nothing.
  assert len(set(alone)) == 3


@pytest.mark.nightly
def test_experts_that_come_first_are_not_gathered(capsys):
  case = Case('small', 'experts', ('experts', 'tokens'),
              ('--width', '128', '--hidden', '1024', '--length', '64',
               '--sequences', '1'), ('v5e:2x4',))
  outcomes = measure([case], print)
  row = outcomes['small', 'v5e:2x4']
  assert list(row) == [
      'GSPMD', 'no priorities', 'experts first', 'tokens first'
  ]
  experts, tokens = row['experts first'], row['tokens first']
  weights = 8 * 2 * 128 * 1024 * 2
  assert 0 < experts.moved < weights < tokens.moved
  assert 'all-to-all' in experts.by_kind
  assert all(o.cycles > 0 and o.peak > 0 for o in row.values())
  capsys.readouterr()
  print_outcomes(case, outcomes)
  assert f'{experts.moved:,}' in capsys.readouterr().out
