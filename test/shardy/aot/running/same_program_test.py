"""What is compiled ahead of time is what others compile of the same program."""

from __future__ import annotations

import os

import ahead_of_time
import jax_route
import processes
import program_digest
import pytest
import torch_xla
from torch_xla.shardy.aot.compiled import compiled_module

ENVIRONMENT = {}  # Beside the tests that need no child.
TOPOLOGY = 'v5e:2x4'


def compiled_here(
    script: str) -> tuple[list[jax_route.Program], list[str], str]:
  """The programs that the compiler got, their digests, and its settings."""
  from torch_xla.shardy import door
  programs, digests = [], []

  def keep(compilation, rest):
    handed_on = compilation.compile

    def compile_and_keep(program, options, program_format=None):
      programs.append((program, options))
      handed_on(program, options, program_format)

    compilation.compile = compile_and_keep
    rest(compilation)
    digests.append(
        program_digest.digest(
            compiled_module.read(*compilation.compiled_program())))

  door.wrap(keep)
  report = ahead_of_time.run(script, (), TOPOLOGY, {})
  assert not report.failed
  return programs, digests, os.environ['LIBTPU_INIT_ARGS']


@pytest.mark.nightly
def test_jaxlib_compiles_the_same() -> None:
  programs, digests, init_args = processes.call(
      compiled_here, 'fsdp.py', PJRT_DEVICE='TPU',
      XLA_STABLEHLO_COMPILE='1').value
  assert len(programs) == len(digests) > 0
  assert processes.call(
      jax_route.digests, programs, TOPOLOGY, init_args,
      PJRT_DEVICE='CPU').value == digests


def shardings_on(device: str) -> list[tuple[str, ...]]:
  """How a script's parameters and results are stored, program by program."""
  if device == 'TPU':
    with torch_xla.shardy.record() as programs:
      ahead_of_time.run('audited.py', (), TOPOLOGY, {})
  else:
    import runpy
    with torch_xla.shardy.record() as programs:
      runpy.run_path(
          str(ahead_of_time.SCRIPTS / 'audited.py'), run_name='__main__')
  return [
      tuple(f'{t.instruction}: {t.spec} {t.sdy} {t.compiled} '
            f'{t.local_shape}'
            for t in record.tensors
            if t.parameter is not None)
      for record in programs
  ]


@pytest.mark.slow
def test_shardings_are_those_of_cpu_devices() -> None:
  on_cpu = processes.call(
      shardings_on,
      'CPU',
      PJRT_DEVICE='CPU',
      CPU_NUM_DEVICES='8',
      XLA_USE_SHARDY='1').value
  on_tpu = processes.call(
      shardings_on, 'TPU', PJRT_DEVICE='TPU', XLA_USE_SHARDY='1').value
  assert on_tpu == on_cpu
  assert any('devices=[4,1,2]' in text for text in on_cpu[0])
