"""What leaves this process as a file, or is printed: no call of ours in it."""

import json
import re

import environments
import numpy as np
import pytest
import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.spmd as xs
from torch_xla.shardy.stablehlo import dialects
from torch_xla.stablehlo import exported_program_to_stablehlo

ENVIRONMENT = environments.SHARDY
_ALONE = pytest.mark.environment()  # Nothing else is alive.
_OURS = 'torch_xla.shardy'


def _graph(mesh: xs.Mesh) -> torch.Tensor:
  """Bound weights and inputs, and a tagged intermediate."""
  model = torch.nn.Linear(16, 8).to('xla')
  xs.mark_sharding(model.weight, mesh, ('y', None), priority=(0, None))
  torch_xla.sync()
  x = torch.ones(8, 16).to('xla')
  xs.mark_sharding(x, mesh, ('x', None), priority=(1, 2))
  y = model(x)
  xs.mark_sharding(y, mesh, ('y', None), priority=(3, None))
  return y * 2


def _exported(tensors, path, **options) -> str:
  torch_xla.shardy.export_stablehlo(tensors, path, **options)
  return dialects.text(dialects.read(path.read_bytes()))


@_ALONE
def test_pending_tensors(mesh, tmp_path):
  text = _exported([_graph(mesh)], tmp_path / 'step.mlir')
  assert text == (tmp_path / 'step.mlir').read_text()
  assert text.count('sdy.mesh @mesh = <["x"=2, "y"=4]>') == 1
  arguments = dict(
      re.findall(r'(%arg\d): tensor<8x16xf32> \{(.*?)\}[,)]', text))
  assert sorted(arguments.values()) == [
      'sdy.sharding = #sdy.sharding<@mesh, [{"x"}p1, {}]>',
      'sdy.sharding = #sdy.sharding<@mesh, [{"y"}p0, {}]>'
  ]
  assert re.findall(r'sdy.sharding_constraint %\w+ (<.*>) :', text) == [
      '<@mesh, [{"x"}p1, {?}p2]>', '<@mesh, [{"y"}p3, {}]>'
  ]
  assert text.count('return') == 1 and len(
      re.search(r'return (.*) :', text)[1].split(',')) == 1
  assert 'mhlo.' not in text and _OURS not in text


def test_open_dimensions_and_parts_of_sums(mesh, tmp_path):
  """The operands of a sum are split, and the sum is a part of itself."""
  a = torch.ones(8, 16).to('xla')
  xs.mark_sharding(a, mesh, ('x', None), propagate=(False, True))
  b = torch.ones(16, 8).to('xla')
  torch_xla.sync()
  c = a @ b
  xs.mark_sharding(c, mesh, ('x', None), unreduced=('y',))
  d = c * 2
  xs.mark_sharding(d, mesh, ('x', None), propagate=True)
  text = _exported([torch.relu(d)], tmp_path / 'step.mlir')
  assert sorted(re.findall(r'sdy.sharding_constraint %\w+ (<.*>) :', text)) == [
      '<@mesh, [{"x", ?}, {?}]>', '<@mesh, [{"x"}, {?}]>',
      '<@mesh, [{"x"}, {}], unreduced={"y"}>', '<@mesh, [{"y"}, {?}]>',
      '<@mesh, [{?}, {"y"}]>'
  ]


@_ALONE
def test_only_arguments_of_the_program_are_in_it(mesh, tmp_path):
  """Bound to the pending graph are all annotated tensors; the file has two."""
  others = [torch.randn(4, 4 + i).to('xla') for i in range(3)]
  for other in others:
    xs.mark_sharding(other, mesh, ('y', None), priority=(5, None))
  torch_xla.sync()
  a, b = others[0], others[1]
  text = _exported([a.sum() + b.sum()], tmp_path / 'p.mlir')
  assert len(re.findall(r'%arg\d+: tensor<4x', text)) == 2
  assert text.count('p5') == 2


@pytest.mark.parametrize('form, has, has_not', [
    ('sdy', 'sdy.sharding_constraint', 'xla.sdy'),
    ('attributes', 'xla.sdy.meshes', ' sdy.'),
    ('plain', 'stablehlo.dot_general', 'sdy'),
])
@pytest.mark.parametrize(
    'suffix',
    ['mlir', pytest.param('mlirbc', marks=pytest.mark.slow), 'bc'])
def test_forms(mesh, tmp_path, form, has, has_not, suffix):
  path = tmp_path / f'p.{suffix}'
  text = _exported([_graph(mesh)], path, form=form)
  assert has in text and has_not not in text
  assert (path.read_bytes()[:4] == b'ML\xefR') == (suffix != 'mlir')


def test_version(mesh, tmp_path):
  path = tmp_path / 'p.bc'
  torch_xla.shardy.export_stablehlo([_graph(mesh)], path, version='1.9.0')
  assert dialects.artifact_version(path.read_bytes()) == (1, 9, 0)


@pytest.mark.parametrize('name, options, message', [
    ('p.txt', {}, 'suffix says in what to write: .mlir for text'),
    ('p.mlir', dict(form='hlo'), "form='hlo' is none of 'sdy'"),
    ('p.mlir', dict(version='1.9.0'), 'text has no version'),
    ('p.bc', dict(version='1.9'), 'is no version from 0.9.0 to'),
    ('p.bc', dict(version='99.0.0'), 'is no version from 0.9.0 to'),
    ('p.bc', dict(version='new'), 'is no version from 0.9.0 to'),
])
def test_bad_input(mesh, tmp_path, name, options, message):
  with pytest.raises(ValueError, match=re.escape(message)):
    torch_xla.shardy.export_stablehlo([_graph(mesh)], tmp_path / name,
                                      **options)
  assert not list(tmp_path.iterdir())


def test_nothing_pending(mesh, tmp_path):
  t = torch.ones(4).to('xla')
  torch_xla.sync()
  with pytest.raises(ValueError, match='has anything pending'):
    torch_xla.shardy.export_stablehlo([t], tmp_path / 'p.mlir')


@_ALONE
def test_an_export_changes_nothing(mesh, tmp_path):
  """The next sync is the program that it would have been, donation and all."""
  handed_on = []
  for is_exported in (False, True):
    t = torch.ones(8, 16).to('xla')
    xs.mark_sharding(t, mesh, ('x', None), priority=(1, None))
    torch_xla.sync()
    t.add_(1)
    if is_exported:
      _exported([t], tmp_path / 'p.mlir')
    with torch_xla.shardy.record() as programs:
      torch_xla.sync()
    handed_on += [p.handed_on for p in programs]
    assert torch.equal(t.cpu(), torch.full((8, 16), 2.))
  assert len(handed_on) == 1  # Compiled once, found the second time.


@pytest.mark.slow
@_ALONE
def test_a_recorded_program_says_what_is_donated(mesh, tmp_path):
  t = torch.ones(8, 16).to('xla')
  xs.mark_sharding(t, mesh, ('x', None), priority=(1, None))
  torch_xla.sync()
  t.add_(1)
  with torch_xla.shardy.record() as programs:
    torch_xla.sync()
  text = _exported(programs[0], tmp_path / 'p.mlir')
  assert re.findall(r'%arg\d: tensor<8x16xf32> \{(.*?)\}[,)]', text) == [
      'jax.buffer_donor = true, sdy.sharding = #sdy.sharding<@mesh, [{"x"}p1, '
      '{}]>'
  ]
  with pytest.raises(ValueError, match='the record has no program'):
    torch_xla.shardy.export_stablehlo(torch_xla.shardy.programs()[0],
                                      tmp_path / 'p.mlir')


@pytest.mark.environment(XLA_STABLEHLO_COMPILE='1')
def test_a_recorded_program_is_what_the_plugin_got(mesh, tmp_path):
  """Byte by byte: padding, normalisations and products are written out in it."""
  x = torch.ones(10, 16).to('xla')
  xs.mark_sharding(x, mesh, ('x', 'y'), priority=(1, None))
  torch_xla.sync()
  y = torch.nn.functional.layer_norm(x, (16,)) @ torch.ones(16, 4).to('xla')
  text = _exported([y], tmp_path / 'p.mlir')
  with torch_xla.shardy.record() as programs:
    torch_xla.sync()
  program = programs[0]
  version = dialects.artifact_version(program.handed_on)
  torch_xla.shardy.export_stablehlo(
      program, tmp_path / 'p.bc', version=dialects.version_text(version))
  assert (tmp_path / 'p.bc').read_bytes() == program.handed_on
  # That of the pending tensor lacks the result of the binding.
  handed_on = dialects.text(dialects.read(program.handed_on)).splitlines()
  assert 'batch_norm' not in text
  assert len(text.splitlines()) == len(handed_on) - 1


@pytest.mark.slow
@_ALONE
def test_a_program_of_torch_export(mesh, tmp_path):
  model = torch.nn.Sequential(torch.nn.Linear(16, 8),
                              torch.nn.LayerNorm(8)).to('xla')
  xs.mark_sharding(model[0].weight, mesh, ('y', None), priority=(0, None))
  x = torch.ones(8, 16).to('xla')
  xs.mark_sharding(x, mesh, ('x', None), priority=(1, None))
  exported = torch.export.export(model, (x,))
  text = _exported(exported, tmp_path / 'p.mlir')
  assert '[{"y"}p0, {}]' in text and '[{"x"}p1, {}]' in text
  # Upstream's exporter gives placements, as ever, and nothing of ours.
  theirs = exported_program_to_stablehlo(exported).get_stablehlo_text()
  assert _OURS not in theirs and 'mhlo.sharding' in theirs


@pytest.mark.parametrize('source, kind, message', [
    ([1], TypeError, 'takes a list of tensors'),
    ({
        'a': 1
    }, TypeError, 'this is a dict'),
    ([torch.ones(2)], ValueError, 'a tensor on cpu is no part of a program'),
])
def test_what_is_no_program(mesh, tmp_path, source, kind, message):
  with pytest.raises(kind, match=message):
    torch_xla.shardy.export_stablehlo(source, tmp_path / 'p.mlir')


class _Mutating(torch.nn.Module):

  def forward(self, a):
    a.add_(1)
    return a * 3


@pytest.mark.slow
@_ALONE
def test_an_exported_program_takes_only_what_is_its_own(mesh, tmp_path):
  """Numbers stay in it, and what else is pending is not computed for it."""
  pending = torch.ones(2).to('xla') + 1
  exported = torch.export.export(_Mutating(), (torch.ones(3, 4),))
  text = _exported(exported, tmp_path / 'p.mlir')
  assert text.count('%arg') == text.count('%arg0')
  assert len(re.search(r'return (.*) :', text)[1].split(',')) == 2
  assert '3.000000e+00' in text
  assert torch_xla._XLAC._check_tensor_need_materialization([pending]) == [True]


class _Stateful(torch.nn.Module):

  def __init__(self):
    super().__init__()
    self.w = torch.nn.Parameter(torch.ones(2, 2))
    self.register_buffer('seen', torch.zeros(2, 2))

  def forward(self, a, b, unused, c):
    self.seen.add_(a)
    return (a - b) * c @ self.w


@_ALONE
def test_a_file_says_which_argument_is_which(mesh, tmp_path):
  model = _Stateful().to('xla')
  xs.mark_sharding(model.w, mesh, ('x', None), priority=(0, None))
  exported = torch.export.export(
      model, tuple(torch.ones(2, 2, device='xla') for _ in range(4)))
  path = tmp_path / 'p.mlir'
  text = _exported(exported, path)
  said = json.loads((tmp_path / 'p.mlir.json').read_text())
  names = [one['name'] for one in said['arguments']]
  assert names == ['a', 'seen', 'w', 'c', 'b']
  assert re.findall(r'jax.arg_info = "(\w+)"', text) == names
  at = {name: f'%arg{number}' for number, name in enumerate(names)}
  assert f'stablehlo.subtract {at["a"]}, {at["b"]} :' in text
  assert f'stablehlo.add {at["seen"]}, {at["a"]} :' in text
  assert said['arguments'][names.index('w')] == {
      'number': names.index('w'),
      'name': 'w',
      'shape': [2, 2],
      'dtype': 'f32',
      'sharding': '{devices=[2,1,4]<=[8] last_tile_dim_replicate}',
      'priority': [0, None],
      'donated': False,
  }
  # What it mutates is a result, before what it returns.
  assert [one['name'] for one in said['results']] == ['seen', 'mm']


@_ALONE
@pytest.mark.parametrize('form', ['sdy', 'attributes'])
def test_pending_tensors_have_the_names_of_their_modules(mesh, tmp_path, form):
  model, x = torch.nn.Linear(16, 8).to('xla'), torch.ones(8, 16).to('xla')
  torch_xla.sync()
  y = model(x)
  xs.mark_sharding(y, mesh, ('x', None), priority=(1, None))
  torch_xla.shardy.name_tensors({'y': y})
  unused = torch.nn.Linear(16, 8).to('xla')  # In no graph: neither named there.
  text = _exported([y], tmp_path / 'p.mlir', form=form)
  said = json.loads((tmp_path / 'p.mlir.json').read_text())
  named = {one['name']: one['shape'] for one in said['arguments']}
  assert named == {
      'bias of one of 2 Linear': [8],
      'weight of one of 2 Linear': [8, 16],
      None: [8, 16]
  }
  assert 'jax.result_info = "y"' in text
  result, = said['results']
  assert result['sharding'] == '{devices=[2,1,4]<=[8] last_tile_dim_replicate}'
  del unused


@pytest.mark.slow
@pytest.mark.environment(EXPERIMENTAL_XLA_UNBOUNDED_DYNAMISM='1')
def test_computed_sizes_cost_priorities_and_a_warning_says_so(
    mesh, tmp_path, caplog):
  model, x = torch.nn.Linear(16, 8).to('xla'), torch.ones(8, 16).to('xla')
  xs.mark_sharding(model.weight, mesh, ('y', None), priority=(0, None))
  xs.mark_sharding(x, mesh, ('x', None), priority=(4, None))
  exported = torch.export.export(
      model, (x,), dynamic_shapes=({
          0: torch.export.Dim('batch', max=64)
      },))
  text = _exported(exported, tmp_path / 'p.mlir')
  assert 'stablehlo.dynamic_broadcast_in_dim' in text and 'p4' not in text
  said = json.loads((tmp_path / 'p.mlir.json').read_text())
  assert {
      a['name']: a['shape'] for a in said['arguments']
  } == {
      'weight': [8, 16],
      'bias': [8],
      'input': [None, 16]
  }
  assert 'the program is exported as torch_xla has it' in caplog.text


class _Sum(torch.nn.Module):

  def forward(self, a, b):
    return a + b


@_ALONE
def test_a_pending_argument_keeps_its_priority(mesh, tmp_path):
  """It is computed for the export, by no sync that looks at annotations."""
  a, b = torch.ones(8, 16).to('xla') * 2, torch.ones(8, 16).to('xla')
  xs.mark_sharding(a, mesh, ('x', None), priority=(5, None))
  text = _exported(torch.export.export(_Sum(), (a, b)), tmp_path / 'p.mlir')
  assert '"a", sdy.sharding = #sdy.sharding<@mesh, [{"x"}p5, {}]>' in text


@_ALONE
def test_what_cannot_be_said_is_said(mesh, tmp_path, caplog):
  ids = np.array([3, 0, 6, 1, 7, 4, 2, 5])
  other = xs.Mesh(ids, (4, 2), ('a', 'b'))
  x, y = torch.randn(8, 8).to('xla'), torch.randn(8, 8).to('xla')
  xs.mark_sharding(x, mesh, ('y', None), priority=(1, None))
  xs.mark_sharding(y, other, ('a', None), priority=(1, None))
  text = _exported([x + y], tmp_path / 'p.mlir')
  assert 'mhlo.sharding = "{devices=[4,1,2]' in text and 'sdy' not in text
  warning, = [
      r.getMessage() for r in caplog.records if r.levelname == 'WARNING'
  ]
  assert 'Shardy cannot be told of the sharding' in warning


@_ALONE
def test_nothing_of_ours_is_printed(mesh):
  out = _graph(mesh)
  assert _OURS not in torch_xla._XLAC._get_xla_tensors_hlo([out])
  text = xm.get_stablehlo([out])
  assert _OURS not in text and '@Sharding' in text
  assert _OURS not in xm.get_stablehlo()  # Of all that is pending.
  bytecode = xm.get_stablehlo_bytecode([out])
  assert _OURS.encode() not in bytecode
  assert dialects.text(dialects.read(bytecode)).count('custom_call') == 1
