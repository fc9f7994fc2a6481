"""What a plugin is spared: what its `rewrites()` may say, and what it gets."""

import annotated_modules as modules
import numpy as np
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy.compile.plan import Surroundings
from torch_xla.shardy.door.device_plugins import XlaCpuPlugin
from torch_xla.shardy.errors import DoorError
from torch_xla.shardy.hlo import messages, protos
from torch_xla.shardy.hlo.compile_options import CompileOptions, Partitioner
from torch_xla.shardy.hlo.editor import dims_of, instructions_of
from torch_xla.shardy.mode import Mode
from torch_xla.shardy.rewrite import pipeline
from torch_xla.shardy.stablehlo.planner import Planner

_SPLIT = 'sharding={devices=[8,1]<=[8]}'


class _Says:
  """A DevicePlugin that says this."""

  def __init__(self, said):
    self._said = said

  def rewrites(self):
    return self._said


def test_a_plugin_that_says_nothing_is_spared_nothing():
  for plugin in (None, object(), _Says({})):
    assert pipeline.disabled_rewrites(plugin) == frozenset()


def test_what_is_false_is_left_out():
  said = {'batch_norm': False, 'dot_dims': True, 'index_dims': False}
  assert pipeline.disabled_rewrites(_Says(said)) == {'batch_norm', 'index_dims'}


_NAMES = "'batch_norm', 'dot_dims', 'index_dims'"


@pytest.mark.parametrize('said', [
    None, ('batch_norm',), {'batch_norm'}, {
        'batch_norm': 'no'
    }, {
        'batch_norm': 0
    }
])
def test_what_is_no_such_dict(said):
  with pytest.raises(DoorError) as raised:
    pipeline.disabled_rewrites(_Says(said))
  assert str(raised.value) == (
      f'_Says.rewrites() gives {said!r}; it must be a dict that says of some '
      f'of {_NAMES} whether they are applied, True or False')


@pytest.mark.parametrize('name', ['batchnorm', 'BATCH_NORM', '', 1])
@pytest.mark.parametrize('is_applied', [False, True])
def test_an_unknown_name(name, is_applied):
  with pytest.raises(DoorError) as raised:
    pipeline.disabled_rewrites(_Says({'dot_dims': False, name: is_applied}))
  assert str(raised.value) == (
      f'_Says.rewrites() names {name!r}; it can name {_NAMES}')


@pytest.mark.parametrize('name', sorted(pipeline.ALWAYS))
def test_what_results_depend_on(name):
  with pytest.raises(DoorError) as raised:
    pipeline.disabled_rewrites(_Says({name: False}))
  assert str(raised.value) == (
      f'_Says.rewrites() names {name!r}, which is always applied: without it '
      'results would be wrong, or a program not be compiled. It can name '
      f'{_NAMES}')


# Each of the three, and a parameter that is padded whatever is left out.
_PROGRAM = f'''
  x = f32[8,4] parameter(0), {_SPLIT}
  s = f32[8] parameter(1)
  n = (f32[8,4], f32[8], f32[8]) batch-norm-training(x, s, s), epsilon=0.001,
    feature_index=0
  y = f32[8,4] get-tuple-element(n), index=0
  q = f32[2,8,5] parameter(2)
  a = f32[16,5] reshape(q)
  w = f32[5,3] parameter(3)
  p = f32[16,3] dot(a, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  r = f32[2,8,3] reshape(p)
  i = u32[8,2,1] parameter(4)
  j = u32[8,2,1] iota(), iota_dimension=0
  k = u32[8,2,2] concatenate(j, i), dimensions={{2}}
  g = f32[8,2] gather(x, k), offset_dims={{}}, collapsed_slice_dims={{0,1}},
    start_index_map={{0,1}}, index_vector_dim=2, slice_sizes={{1,1}}
  u = f32[10,6] parameter(5), {_SPLIT}
  ROOT t = (f32[8,4], f32[2,8,3], f32[8,2], f32[10,6]) tuple(y, r, g, u)
'''


def _left(name: str, program) -> bool:
  """Whether an HloModuleProto message has what a rewrite is for."""
  return any({
      'batch_norm': i.opcode.startswith('batch-norm'),
      'dot_dims': i.name == 'r' and i.opcode == 'reshape',
      'index_dims': i.opcode == 'concatenate',
  }[name] for i in instructions_of(program))


@pytest.mark.parametrize(
    'left_out', [(), *([n] for n in pipeline.FOR_SHARDINGS)], ids=str)
def test_the_others_are_applied(left_out):
  pytest.importorskip('jaxlib._hlo', reason='needs jaxlib: HLO text')
  sent = modules.module_of(_PROGRAM)
  assert all(_left(name, sent) for name in pipeline.FOR_SHARDINGS)
  plan = Planner(Mode.SHARDY, Surroundings(disabled_rewrites=lambda: left_out))(
      sent.SerializeToString(), 'hlo', CompileOptions(Partitioner.GSPMD, 1, 8))
  assert not plan.reason
  attempts = [step.make({}) for step in plan.steps]
  by_shardy = attempts[:-1]
  assert by_shardy and attempts[-1].partitioner is Partitioner.GSPMD
  for attempt in by_shardy:
    program = messages.parse(protos.HloModuleProto, attempt.program)
    for name in pipeline.FOR_SHARDINGS:
      assert _left(name, program) == (name in left_out), name
    uneven, = (
        i for i in instructions_of(program)
        if i.opcode == 'parameter' and i.parameter_number == 5)
    assert dims_of(uneven) == (16, 6)


@pytest.mark.environment(
    PJRT_DEVICE='CPU', CPU_NUM_DEVICES='8', XLA_USE_SHARDY='1')
def test_a_plugin_gets_what_it_asks_for(monkeypatch):
  """The sharding then ends at a normalisation, and numbers are the same."""
  monkeypatch.setattr(
      XlaCpuPlugin,
      'rewrites',
      lambda self: {'batch_norm': False},
      raising=False)
  xr.use_spmd()
  a = torch.randn(8, 4, 6)
  x = a.to('xla')
  xs.mark_sharding(x, xs.Mesh(np.arange(8), (8,), ('x',)), ('x', None, None))
  torch_xla.sync()
  y = torch.nn.functional.layer_norm(x, (6,))
  with torch_xla.shardy.record() as programs:
    torch_xla.sync()
  program, = programs
  assert program.partitioner is Partitioner.SHARDY and not program.note
  assert b'batch-norm-training' in program.handed_on
  assert torch_xla._XLAC._get_xla_sharding_spec(y) == '{replicated}'
  torch.testing.assert_close(y.cpu(), torch.nn.functional.layer_norm(a, (6,)))
