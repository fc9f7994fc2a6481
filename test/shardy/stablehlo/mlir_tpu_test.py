"""The real TPU compiler takes our MLIR, and makes of it what HLO becomes."""

import environments
import programs
import pytest
from to_sdy_tpu_test import TOPOLOGY, TPU_OPCODES
from torch_xla.shardy.annotate.annotation import UserMesh
from torch_xla.shardy.stablehlo import dialects

pytest.importorskip('jaxlib', reason='needs jaxlib: it reads MLIR')
pytest.importorskip('libtpu', reason='needs libtpu, the TPU compiler')
topology = pytest.importorskip('benchmarks.topology')
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('spmd')]

ENVIRONMENT = {**environments.STABLEHLO, **environments.LIBTPU}
_MESH = UserMesh.from_devices((2, 4), ('x', 'y'))


def _compiled(monkeypatch, module) -> str:
  """What libtpu makes of a module in MLIR, with Shardy."""
  monkeypatch.setattr(topology, '_module', lambda program: module)
  text = topology.compile_for(TOPOLOGY, b'', shardy=True).to_string()
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
    assert programs.computed_shapes(compiled, TPU_OPCODES.get(
        opcode, opcode), len(shape)) == {programs.local_shape(shape, spec)}
