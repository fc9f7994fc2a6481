"""jaxlib's own way to a program for TPUs that are not there."""

from __future__ import annotations

import os

import program_digest

from torch_xla.shardy.aot import settings, topologies
from torch_xla.shardy.aot.compiled import compiled_module
from torch_xla.shardy.aot.running import plugin

# A program in StableHLO and its options, serialised.
Program = tuple[bytes, bytes]


def digests(programs: list[Program], topology: str,
            init_args: str) -> list[str]:
  """The programs' digests as jaxlib's client for a topology compiles them.

  Args:
    init_args: LIBTPU_INIT_ARGS, the compiler's settings.
  """
  name = topologies.parse(topology)
  os.environ.update(
      settings.environment({}, name, 0, plugin.LIBRARY_PATH, '/nonexistent'))
  del os.environ['TPU_LIBRARY_PATH']  # The real one.
  os.environ.update(LIBTPU_INIT_ARGS=init_args, JAX_PLATFORMS='cpu')
  from jax._src.interpreters import mlir
  from jax.experimental import topologies as jax_topologies
  from jaxlib import xla_client
  from jaxlib.mlir.dialects import stablehlo
  devices = tuple(
      jax_topologies.get_topology_desc(
          name.for_library, platform='tpu', **name.options).devices)
  found = []
  for program, options in programs:
    with mlir.make_ir_context() as context:
      executable = devices[0].client.compile(
          stablehlo.deserialize_portable_artifact(context, program),
          xla_client.DeviceList(devices),
          xla_client.CompileOptions.ParseFromString(options))
    compiled, = executable.hlo_modules()
    found.append(
        program_digest.digest(
            compiled_module.read(compiled.as_serialized_hlo_module_proto(),
                                 'hlo')))
  return found
