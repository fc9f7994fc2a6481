"""The real TPU compiler takes normalisations that are written out."""

import environments
import norms
import programs
import pytest
import torch_xla.runtime as xr

pytest.importorskip('libtpu', reason='needs libtpu, the TPU compiler')
topology = pytest.importorskip('benchmarks.topology')
pytestmark = pytest.mark.slow

ENVIRONMENT = {**environments.SHARDY, **environments.LIBTPU}
_OF_SEQUENCE = norms.LAYER_NORMS[1]


def test_layer_norm():
  """Forward and backward; split by the sequence, as on XLA:CPU."""
  xr.use_spmd()
  xr.global_runtime_device_count()
  which, = _OF_SEQUENCE.runs
  ran = programs.run(_OF_SEQUENCE, which)
  compiled = topology.compile_for(
      'v5e:2x4', ran.record.handed_on, shardy=True).to_string()
  for opcode, spec in which.between.items():
    shape = _OF_SEQUENCE.between[opcode]
    assert programs.computed_shapes(
        compiled, opcode, len(shape)) == {programs.local_shape(shape, spec)}
