"""What tests of the SPMD package share."""

import numpy as np
import pytest
import torch_xla.distributed.spmd as xs


@pytest.fixture(scope='module', name='mesh')
def mesh_fixture(spmd: None) -> xs.Mesh:
  """A mesh of two by four devices."""
  return xs.Mesh(np.arange(8), (2, 4), ('data', 'model'))
