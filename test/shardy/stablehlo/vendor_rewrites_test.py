"""Operations that a vendor's plugin gets whole, as its compiler has rules for
them: on the stand-in, which is given the program and runs it.
"""

from __future__ import annotations

import numpy as np
import processes
import pytest
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.spmd as xs
from torch_xla.experimental import plugins
import torch_xla.runtime as xr
from torch_xla.shardy.door.device_plugins import LIBRARY_DEVICE, LibraryPlugin
from torch_xla.shardy.stablehlo import dialects
import vendor

pytestmark = pytest.mark.slow


class _Plugin(LibraryPlugin):

  def __init__(self, said: dict[str, bool]):
    super().__init__()
    self._said = said

  def program_format(self) -> str:
    return 'mlir'

  def rewrites(self) -> dict[str, bool]:
    return self._said


def _computed(x: torch.Tensor, at: torch.Tensor, w: torch.Tensor):
  """A normalisation, a product of merged dimensions, and a gather."""
  return F.layer_norm(x, (16,)), x @ w, x.gather(2, at)


def _arrived(way: vendor.Way, said: dict[str, bool]) -> str:
  """What the plugin got last, as text; what it computed is right."""
  with vendor.started(way) as dump:
    plugins.register_plugin(LIBRARY_DEVICE, _Plugin(said))
    xr.use_spmd()
    mesh = xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))
    torch.manual_seed(0)
    on_host = (torch.randn(4, 8,
                           16), torch.randint(16,
                                              (4, 8, 3)), torch.randn(16, 5))
    moved = [t.to('xla') for t in on_host]
    xs.mark_sharding(moved[0], mesh, ('x', 'y', None), priority=(0, 1, None))
    torch_xla.sync()
    results = _computed(*moved)
    torch_xla.sync()
    text = dialects.text(dialects.read(dump.arrived()[-1]))
    for result, expected in zip(results, _computed(*on_host), strict=True):
      torch.testing.assert_close(result.cpu(), expected, rtol=1e-5, atol=1e-5)
  return text


_WHOLE = {
    'batch_norm': 'stablehlo.batch_norm_training',
    'dot_dims': '(tensor<32x16xf32>, tensor<16x5xf32>) -> tensor<32x5xf32>',
    'index_dims': 'stablehlo.concatenate',
}


@pytest.mark.parametrize('way, is_applied', [
    ('sdy', False),
    pytest.param('sdy', True, marks=pytest.mark.nightly),
    pytest.param('converted', False, marks=pytest.mark.nightly),
    pytest.param('converted', True, marks=pytest.mark.nightly),
])
def test_what_arrives(way, is_applied):
  vendor.build_once()
  way = vendor.WAYS[way]
  text = processes.call(_arrived, way, dict.fromkeys(_WHOLE, is_applied),
                        **way.variables).value
  for name, whole in _WHOLE.items():
    assert (whole in text) != is_applied, name
