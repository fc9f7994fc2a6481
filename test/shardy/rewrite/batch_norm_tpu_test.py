"""The real TPU compiler takes normalisations that are written out."""

import norms
import programs
import pytest
import torch_xla.runtime as xr

pytest.importorskip('libtpu', reason='needs libtpu, the TPU compiler')
topology = pytest.importorskip('benchmarks.topology')
pytestmark = pytest.mark.slow

ENVIRONMENT = {
    **programs.ENVIRONMENT,
    'TPU_SKIP_MDS_QUERY': '1',
    'JAX_PLATFORMS': 'cpu',
    # Another process may be compiling for TPUs at the same time.
    'ALLOW_MULTIPLE_LIBTPU_LOAD': '1',
}
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
