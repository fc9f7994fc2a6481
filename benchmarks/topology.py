"""Compiles HLO modules for TPUs that are not there, with the real libtpu."""

import functools
import os
from typing import Any

import numpy as np

# There is no metadata server to ask what this machine is.
os.environ.setdefault('TPU_SKIP_MDS_QUERY', '1')
os.environ.setdefault('JAX_PLATFORMS', 'cpu')


@functools.lru_cache(maxsize=None)
def tpu(name: str) -> Any:
  """The topology `name`, such as 'v5e:2x4'."""
  from jax.experimental import topologies
  return topologies.get_topology_desc(name, platform='tpu')


def _module(program: bytes) -> Any:
  """A serialised HloModuleProto as StableHLO, shardings kept as text."""
  from jax._src.interpreters import mlir
  from jaxlib import _jax
  from jaxlib.mlir import ir
  with mlir.make_ir_context():
    return ir.Module.parse(_jax.mlir.hlo_to_stablehlo(program))


def stablehlo(program: bytes) -> str:
  """The text that libtpu is given for a serialised HloModuleProto."""
  return str(_module(program))


def compile_for(name: str, program: bytes, shardy: bool = False) -> Any:
  """Compiles a serialised HloModuleProto for all devices of topology `name`.

  Args:
    shardy: whether Shardy is to partition; it places the results as it likes,
      as torch_xla lets it.

  Returns:
    The compiled program, an HloModule of jaxlib.
  """
  from jaxlib import xla_client
  devices = tuple(tpu(name).devices)
  options = xla_client.CompileOptions()
  options.num_replicas, options.num_partitions = 1, len(devices)
  build = options.executable_build_options
  build.num_replicas, build.num_partitions = 1, len(devices)
  build.use_spmd_partitioning = True
  if shardy:
    build.use_shardy_partitioner = True
    build.allow_spmd_sharding_propagation_to_output = [True]
  build.device_assignment = xla_client.DeviceAssignment.create(
      np.arange(len(devices)).reshape(1, -1))
  executable = devices[0].client.compile(
      _module(program), xla_client.DeviceList(devices), options)
  module, = executable.hlo_modules()
  return module
