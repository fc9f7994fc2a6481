"""Without jaxlib, and with the jaxlib that is installed.

Each start of torch_xla is the point here, so each is a new process.
"""

import processes
import pytest

ENVIRONMENT = {}  # Beside the tests that need no child.
_DEVICES = dict(PJRT_DEVICE='CPU', CPU_NUM_DEVICES='8')
# As find_spec and import find them where they are not installed.
_WITHOUT = "import sys; sys.modules['jaxlib'] = sys.modules['jax'] = None\n"
_START = _WITHOUT + 'import torch_xla'
_RUN = _START + '''
import numpy as np, torch
import torch_xla.distributed.spmd as xs, torch_xla.runtime as xr
xr.use_spmd()
mesh = xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))
t = torch.ones(8, 4).to('xla')
xs.mark_sharding(t, mesh, ('x', None))
with torch_xla.shardy.record() as programs:
  print((t + 1).sum().item(), programs[0].format)
'''


@pytest.mark.nightly
@pytest.mark.parametrize(
    'variables', [
        dict(XLA_USE_SHARDY='1', XLA_STABLEHLO_COMPILE='1'),
        pytest.param(
            dict(CONVERT_SHLO_TO_SHARDY='1', XLA_STABLEHLO_COMPILE='1'),
            marks=pytest.mark.nightly),
        pytest.param(
            dict(XLA_SHARDING_V2='1', XLA_STABLEHLO_COMPILE='1'),
            marks=pytest.mark.nightly),
    ],
    ids=lambda v: next(iter(v)))
def test_stablehlo_without_jaxlib(variables):
  """An error at the start, which names what to install."""
  said = processes.error_of(_START, **_DEVICES, **variables)
  assert said.startswith('torch_xla.shardy.errors.DoorError: ')
  assert 'XLA_STABLEHLO_COMPILE is set' in said
  assert 'it is not installed' in said
  assert "pip install 'torch_xla[stablehlo]'" in said


@pytest.mark.nightly
@pytest.mark.parametrize(
    'variables', [
        dict(XLA_USE_SHARDY='1'),
        pytest.param(dict(XLA_SHARDING_V2='1'), marks=pytest.mark.nightly),
    ],
    ids=lambda v: next(iter(v)))
def test_hlo_without_jaxlib(variables):
  """It needs none."""
  assert processes.output_of(_RUN, **_DEVICES, **variables) == '64.0 hlo\n'


@pytest.mark.nightly
def test_stablehlo_in_the_mode_of_upstream_without_jaxlib():
  """Nothing of ours is in the way of these programs."""
  processes.output_of(_START, **_DEVICES, XLA_STABLEHLO_COMPILE='1')


def test_jaxlib_of_the_range():
  """What the rest of these tests ran with has all that is used of it."""
  jaxlib = pytest.importorskip('jaxlib', reason='needs jaxlib')
  from torch_xla.shardy.stablehlo import dialects
  version = tuple(map(int, jaxlib.__version__.split('.')[:3]))
  assert version >= (0, 7, 1)
  # The first version of plugins that get the dialect can be written.
  assert dialects.oldest_version() < (1, 11, 0) <= dialects.current_version()
