"""The real TPU compiler reads our V2 shardings as it reads V1."""

import re

import environments
import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.spmd as xs

pytest.importorskip('libtpu', reason='needs libtpu, the TPU compiler')
topology = pytest.importorskip('benchmarks.topology')
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('spmd')]

ENVIRONMENT = {**environments.V2, **environments.LIBTPU}
TOPOLOGY = 'v5e:2x4'
V1_LIST = re.compile(r'devices=\[[\d,]+\]\d')
V2_IOTA = re.compile(r'devices=\[[\d,]+\]<=\[')


def comparable(module: str) -> str:
  """Module text less what may differ between V1 and V2 of one placement.

  That is what numbers programs and instructions, the text of a parameter's
  sharding, and how groups of devices are written.
  """
  module = re.sub(r'HloModule [^,\s]+', 'HloModule m', module)
  return re.sub(
      r', metadata=\{[^}]*\}|, sharding=\{[^}]*\}|'
      r', replica_groups=.*?(?=, (?!device_ids)\w+=|\n)', '', module)


def test_training_step_compiles_alike_from_v1_and_v2():
  mesh = xs.Mesh(np.arange(8), (2, 4), ('data', 'model'))
  up, down = (
      torch.nn.Parameter(torch.randn(shape).to('xla'))
      for shape in ((256, 128), (128, 256)))
  x = torch.randn(64, 128).to('xla')
  xs.mark_sharding(up, mesh, ('model', 'data'))
  xs.mark_sharding(down, mesh, ('data', 'model'))
  xs.mark_sharding(x, mesh, ('data', None))
  torch_xla.sync()
  with torch_xla.shardy.record() as programs:
    F.linear(F.gelu(F.linear(x, up)), down).square().mean().backward()
    with torch.no_grad():
      for weight in (up, down):
        weight -= 0.1 * weight.grad
    torch_xla.sync()
  program = programs[0]
  sent = topology.stablehlo(program.sent)
  handed_on = topology.stablehlo(program.handed_on)
  assert V1_LIST.search(sent) and not V2_IOTA.search(sent)
  assert V2_IOTA.search(handed_on) and not V1_LIST.search(handed_on)
  v1, v2 = (
      topology.compile_for(TOPOLOGY, p).to_string()
      for p in (program.sent, program.handed_on))
  assert re.search(r'all-(reduce|gather)|reduce-scatter', v2)
  assert comparable(v1) == comparable(v2)
