"""The real TPU compiler takes our MLIR, and makes of it what HLO becomes."""

import re

from annotated_modules import bind, module_of
import environments
from mlir_modules import in_form
import programs
import pytest
from torch_xla.shardy.annotate.annotation import Annotation, UserMesh
from torch_xla.shardy.rewrite import extract, to_sdy
from torch_xla.shardy.stablehlo import dialects

pytest.importorskip('jaxlib', reason='needs jaxlib: it reads MLIR')
pytest.importorskip('libtpu', reason='needs libtpu, the TPU compiler')
topology = pytest.importorskip('benchmarks.topology')
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('spmd')]

ENVIRONMENT = {**environments.STABLEHLO, **environments.LIBTPU}
_TOPOLOGY = 'v5e:2x4'
# What it makes of an operation that it has no use for.
_TPU_OPCODES = {'gather': 'convolution'}
_MESH = UserMesh.from_devices((2, 4), ('x', 'y'))


def _compiled(monkeypatch, module) -> str:
  """What libtpu makes of a module in MLIR, with Shardy."""
  monkeypatch.setattr(topology, '_module', lambda program: module)
  text = topology.compile_for(_TOPOLOGY, b'', shardy=True).to_string()
  monkeypatch.undo()
  return text


@pytest.mark.parametrize('program, which', programs.JUDGED)
def test_choices(program, which, monkeypatch):
  ran = programs.run(program, which)
  module = dialects.read(ran.record.handed_on)
  assert 'sdy.mesh @mesh' in dialects.text(module)
  compiled = _compiled(monkeypatch, module)
  for opcode, spec in which.between.items():
    shape = program.between[opcode]
    assert programs.computed_shapes(compiled, _TPU_OPCODES.get(
        opcode, opcode), len(shape)) == {programs.local_shape(shape, spec)}


def _collectives(text: str) -> list[str]:
  return sorted(
      re.findall(
          r' = ([^=]* (?:all-gather|all-reduce|all-to-all|collective-permute|'
          r'reduce-scatter)(?:-start)?)\(', text))


@pytest.mark.parametrize('priorities', [(0, 1), (1, 0)], ids=str)
@pytest.mark.parametrize(
    'a, b, operation',
    [
        ('[16,128]', '[16,128]', 'add(a, b)'),
        # By batch of the first, or by what is summed over.
        ('[16,128]', '[128,64]',
         'dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}'),
    ],
    ids=['add', 'dot'])
def test_collectives(a, b, operation, priorities, monkeypatch):
  """One program, handed over as HLO and as StableHLO."""
  axes = (0, 1) if 'add' in operation else (1, 1)
  said = [
      Annotation.from_spec(_MESH, (axis, None), (priority, None))
      for axis, priority in zip(axes, priorities)
  ]
  result = '[16,128]' if 'add' in operation else '[16,64]'
  hlo = module_of(f'''
    a = f32{a}{{1,0}} parameter(0), sharding={said[0].sharding}
    b = f32{b}{{1,0}} parameter(1), sharding={said[1].sharding}
    s = f32[] custom-call(a, b), {bind(*said)}
    o = f32{result}{{1,0}} {operation}
    ROOT t = (f32{result}{{1,0}}, f32[]) tuple(o, s)''')
  to_sdy.lower_shardings(hlo, extract.extract_annotations(hlo), 8)
  by_mlir = _compiled(monkeypatch, in_form(hlo))
  by_hlo = topology.compile_for(
      _TOPOLOGY, hlo.SerializeToString(), shardy=True).to_string()
  assert _collectives(by_mlir) == _collectives(by_hlo) != []
