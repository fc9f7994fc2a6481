"""The real TPU compiler reads our V2 shardings as it reads V1."""

import re

import environments
import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.spmd as xs
from torch_xla.shardy.sharding.text import parse_sharding

pytest.importorskip('libtpu', reason='needs libtpu, the TPU compiler')
topology = pytest.importorskip('benchmarks.topology')
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('spmd')]

ENVIRONMENT = {**environments.V2, **environments.LIBTPU}
TOPOLOGY = 'v5e:2x4'
V1_LIST = re.compile(r'devices=\[[\d,]+\]\d')
V2_IOTA = re.compile(r'devices=\[[\d,]+\]<=\[')


def without_names(module: str) -> str:
  """Module text less what numbers programs and instructions."""
  module = re.sub(r'HloModule [^,\s]+', 'HloModule m', module)
  return re.sub(r', metadata=\{[^}]*\}', '', module)


# Replica groups of 8 devices as the compiler prints those that it made from V2:
# an iota of groups, [4,2]<=[2,4]T(1,0), or a mesh over all devices (in the
# order of an iota, if it has one) and the axes that one group spans,
# mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'b'}.
IOTA_GROUPS = re.compile(
    r'replica_groups=(\[[\d,]+\]<=\[[\d,]+\](?:T\([\d,]+\))?)')
MESH_GROUPS = re.compile(
    r"replica_groups=mesh\[([^\]]*)\]"
    r"(?:, device_ids=\(\[([\d,]+)\](?:T\(([\d,]+)\))?\))? \{([^}]*)\}")


def ints(text: str) -> list[int]:
  return [int(i) for i in text.split(',')]


def listed(groups: np.ndarray) -> str:
  text = ','.join('{' + ','.join(map(str, g)) + '}' for g in groups.tolist())
  return 'replica_groups={' + text + '}'


def expand_iota(match: re.Match) -> str:
  text = '{devices=' + match[1] + '}'
  return listed(parse_sharding(text).to_v1().tiles.to_array())


def expand_mesh(match: re.Match) -> str:
  axes, reshape_dims, transpose_perm, spanned = match.groups()
  names, sizes = zip(*re.findall(r"'(\w+)'=(\d+)", axes))
  ids = np.arange(8)
  if transpose_perm:
    ids = ids.reshape(ints(reshape_dims)).transpose(ints(transpose_perm))
  ids = ids.reshape([int(size) for size in sizes])
  grouped = [names.index(axis) for axis in re.findall(r"'(\w+)'", spanned)]
  others = [i for i in range(len(names)) if i not in grouped]
  size = int(np.prod([ids.shape[i] for i in grouped]))
  return listed(ids.transpose(others + grouped).reshape(-1, size))


def sort_groups(match: re.Match) -> str:
  """An all-reduce is the same in whatever order its groups name devices."""
  groups = re.sub(r'\{([\d,]+)\}',
                  lambda m: '{' + ','.join(sorted(m[1].split(','))) + '}',
                  match[2])
  return match[1] + groups


def comparable(module: str) -> str:
  """Module text less what may differ between V1 and V2 of one placement."""
  module = without_names(module)
  # A parameter's sharding is kept as the text that it came with.
  module = re.sub(r', sharding=\{[^}]*\}', '', module)
  module = IOTA_GROUPS.sub(expand_iota, module)
  module = MESH_GROUPS.sub(expand_mesh, module)
  return re.sub(r'( all-reduce[^\n]*replica_groups=)(\{\{[\d,{}]*\}\})',
                sort_groups, module)


SPECS = {
    'tensor parallel': (('model', None), (None, 'model'), ('data', None)),
    'fsdp': ((('data', 'model'), None), (None, ('data', 'model')),
             (('data', 'model'), None)),
    'two dimensions': (('model', 'data'), ('data', 'model'), ('data', None)),
    'reversed tuple': (
        (('model', 'data'), None), (None, ('model', 'data')), ('data', None)),
    'partial': (('data', None), (None, 'data'), ('data', None)),
}


@pytest.mark.parametrize('specs', [
    pytest.param(
        specs,
        id=name,
        marks=[pytest.mark.nightly] * (name != 'two dimensions'))
    for name, specs in SPECS.items()
])
def test_training_step_compiles_alike_from_v1_and_v2(specs):
  mesh = xs.Mesh(np.arange(8), (2, 4), ('data', 'model'))
  up, down = (
      torch.nn.Parameter(torch.randn(shape).to('xla'))
      for shape in ((256, 128), (128, 256)))
  x = torch.randn(64, 128).to('xla')
  for tensor, spec in zip((up, down, x), specs):
    xs.mark_sharding(tensor, mesh, spec)
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
