"""Tensors whose dimensions do not divide evenly: padded, and Shardy's.

Each runs for real, on eight CPU devices, against plain torch.
"""

import annotated_modules as modules
import environments
import numpy as np
from printed import assert_printed
import pytest
from shards import check_shards, sharded
import torch
from torch._higher_order_ops.while_loop import while_loop
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.experimental.fori_loop
from torch_xla.shardy.annotate.annotation import Annotation, UserMesh
from torch_xla.shardy.compile.attempt import Attempt, Failure, Outcome
from torch_xla.shardy.compile.plan import NO_TILES, Probe
from torch_xla.shardy.hlo import array_shape, op_sharding
from torch_xla.shardy.hlo.compile_options import Partitioner
from torch_xla.shardy.hlo.compiled_program import CompiledProgram
from torch_xla.shardy.rewrite import padding, propagation_probe
from torch_xla.shardy.sharding.hlo_sharding import REPLICATED
from torch_xla.shardy.sharding.text import parse_sharding

ENVIRONMENT = environments.SHARDY
pytestmark = pytest.mark.usefixtures('spmd')
_STABLEHLO = pytest.mark.environment(XLA_STABLEHLO_COMPILE='1')
_REPLICATED = op_sharding.to_bytes(REPLICATED)
_PERMUTED = (7, 1, 2, 3, 4, 5, 6, 0)
close = torch.testing.assert_close


def _mesh(ids=range(8), shape=(2, 4), names=('x', 'y')) -> xs.Mesh:
  return xs.Mesh(np.array(ids), shape, names)


def _check_all_shardy(programs) -> None:
  assert programs
  for program in programs:
    assert program.partitioner is Partitioner.SHARDY, program.note
    assert not program.note and program.error is None


def _text(entry: str, tiles=None) -> str:
  """What a module becomes, without what is not looked at here."""
  hlo = pytest.importorskip('jaxlib._hlo', reason='needs jaxlib: HLO text')
  module = modules.module_of(entry)
  modules.lower(module, tiles or NO_TILES)
  for computation in module.computations:
    for instruction in computation.instructions:
      instruction.ClearField('frontend_attributes')
  text = hlo.HloModule.from_serialized_hlo_module_proto(
      module.SerializeToString()).to_string()
  body = text.partition('\n')[2].replace('%', '').strip()
  return body.replace(', custom_call_target=', ' ')


_SPLIT = '{devices=[8,1]<=[8]}'


def test_a_parameter_is_padded_and_cut():
  said = Annotation.from_spec(
      UserMesh.from_devices((8,), ('d',)), (0, None), (3, None))
  text = _text(f'''
    p = f32[10,6] parameter(0), sharding={_SPLIT}
    b = f32[] custom-call(p), {modules.bind(said)}
    n = f32[2,6] slice(p), slice={{[0:2], [0:6]}}
    ROOT t = (f32[2,6], f32[]) tuple(n, b)''')
  assert_printed(
      text, '''\
ENTRY e (p: f32[16,6]) -> (f32[2,6], f32[]) {
  p = f32[16,6]{1,0} parameter(0), sharding={devices=[8,1]<=[8]}
  shardy.4 = f32[10,6]{1,0} slice(p), slice={[0:10], [0:6]}
  shardy.5 = f32[10,6]{1,0} custom-call(shardy.4) "Sharding",
      sharding={devices=[8,1]<=[8]}
  n = f32[2,6]{1,0} slice(shardy.5), slice={[0:2], [0:6]}
  b = f32[] constant(0)
  ROOT t = (f32[2,6]{1,0}, f32[]) tuple(n, b)
}''')


def test_a_constrained_result_is_padded():
  """And nobody else sees the padding."""
  text = _text(f'''
    p = bf16[10,6] parameter(0)
    c = bf16[10,6] custom-call(p), custom_call_target="Sharding",
      sharding={_SPLIT}
    n = bf16[2,6] slice(c), slice={{[0:2], [0:6]}}
    ROOT t = (bf16[10,6], bf16[2,6]) tuple(c, n)''')
  assert_printed(
      text, '''\
ENTRY e (p: bf16[10,6]) -> (bf16[16,6], bf16[2,6]) {
  p = bf16[10,6]{1,0} parameter(0)
  c = bf16[10,6]{1,0} custom-call(p) "Sharding", sharding={devices=[8,1]<=[8]}
  shardy.4 = s32[] constant(0)
  shardy.5 = bf16[] convert(shardy.4)
  shardy.6 = bf16[16,6]{1,0} pad(c, shardy.5), padding=0_6x0_0
  shardy.7 = bf16[16,6]{1,0} custom-call(shardy.6) "Sharding",
      sharding={devices=[8,1]<=[8]}
  shardy.8 = bf16[16,6]{1,0} custom-call(shardy.7) "xla.sdy.FuncResultSharding"
  n = bf16[2,6]{1,0} slice(c), slice={[0:2], [0:6]}
  ROOT t = (bf16[16,6]{1,0}, bf16[2,6]{1,0}) tuple(shardy.8, n)
}''')


def test_a_free_result_is_padded_to_tiles():
  """A gradient, say, of a weight: not pinned."""
  text = _text(
      f'''
    p = f32[10,6] parameter(0)
    c = f32[10,6] custom-call(p), custom_call_target="Sharding",
      sharding={_SPLIT}
    ROOT n = f32[6,10] transpose(c), dimensions={{1,0}}''', {0: (1, 8)})
  assert_printed(
      text, '''\
ENTRY e (p: f32[10,6]) -> f32[6,16] {
  p = f32[10,6]{1,0} parameter(0)
  c = f32[10,6]{1,0} custom-call(p) "Sharding", sharding={devices=[8,1]<=[8]}
  n = f32[6,10]{1,0} transpose(c), dimensions={1,0}
  shardy.3 = s32[] constant(0)
  shardy.4 = f32[] convert(shardy.3)
  ROOT shardy.5 = f32[6,16]{1,0} pad(n, shardy.4), padding=0_0x0_6
}''')


def test_what_shardy_is_asked():
  """It is asked of a free result that may be uneven; all others stay alive."""
  entry = f'''
    p = f32[10,6] parameter(0)
    c = f32[10,6] custom-call(p), custom_call_target="Sharding",
      sharding={_SPLIT}
    z = f32[] constant(0)
    e = f32[16,8] pad(c, z), padding=0_6x0_2
    n = f32[6,10] transpose(c), dimensions={{1,0}}
    ROOT t = (f32[10,6], f32[6,10], f32[16,8]) tuple(c, n, e)'''
  module = modules.module_of(entry)
  padded = modules.lower(module).padded
  assert padded.unplaced_results == {1: (6, 10)} and not padded.padded_unplaced
  propagation_probe.make_probe(module, padded.unplaced_results, 8)
  entry, = module.computations
  names = {i.id: i.name for i in entry.instructions}
  root = next(i for i in entry.instructions if i.id == entry.root_id)
  asked = next(i for i in entry.instructions if i.id == root.operand_ids[0])
  shape, = array_shape.arrays_of(asked.shape)
  assert shape.dims == (8, 16) and len(root.operand_ids) == 1
  groups = {}
  for i in entry.instructions:
    if i.custom_call_target == 'xla.sdy.ShardingGroup':
      assert i.custom_call_has_side_effect
      attribute, = i.frontend_attributes.map
      groups.setdefault(attribute.value, []).append(names[i.operand_ids[0]])
  assert {k: len(v) for k, v in groups.items()} == {
      '0 : i64': 1, '1 : i64': 2, '2 : i64': 1}  # yapf: disable
  twin, padded_result = groups['1 : i64']
  by_name = {i.name: i for i in entry.instructions}
  assert twin == asked.name and by_name[twin].opcode == 'broadcast'
  scalar = by_name[names[asked.operand_ids[0]]]
  assert scalar.opcode == 'parameter'
  assert list(
      entry.program_shape.parameters) == [by_name['p'].shape, scalar.shape]
  assert by_name[padded_result].opcode == 'pad'
  assert names[by_name[padded_result].operand_ids[0]] == 'n'
  assert groups['2 : i64'] == ['e']
  assert not any(i.custom_call_target == 'xla.sdy.FuncResultSharding'
                 for i in entry.instructions)


def test_a_dimension_without_a_bound_is_not_padded():
  placed = parse_sharding('{devices=[3,2]<=[6]}')
  assert padding.padded_dims((-2**63, 8), placed) is None
  assert padding.padded_dims((4, 8), placed) == (6, 8)


def _outcome(*results: str) -> Outcome:
  made = CompiledProgram((), tuple(map(parse_sharding, results)), (), {})
  return Outcome(b'', 0.1, compiled=made)


_PROBE = Probe(Attempt(b'', Partitioner.SHARDY), {1: (10, 6)})


@pytest.mark.parametrize(
    'outcome, tiles',
    [
        (_outcome('{devices=[8,1]<=[8]}'), {
            1: (8, 1)
        }),
        (_outcome('{devices=[2,1,4]<=[8] last_tile_dim_replicate}'), {
            1: (2, 1)
        }),
        (_outcome('{devices=[8]<=[8]}'), {}),  # Of another rank.
        (_outcome('{replicated}'), {}),
        (_outcome('{replicated}', '{devices=[8,1]<=[8]}'), {}),
        (Outcome(b'', 0.1), {}),
    ])
def test_the_tiles_that_a_probe_reports(outcome, tiles):
  assert _PROBE.tiles(outcome) == tiles
  assert _PROBE.description == 'asked how it splits 1 results'


@pytest.mark.parametrize('made, is_split_so', [
    ('{devices=[8,1]<=[8]}', True),
    ('{devices=[4,2]<=[8]}', False),
    ('{devices=[2,1,4]<=[8] last_tile_dim_replicate}', False),
    ('{replicated}', False),
    (None, False),
])
def test_padded_results_have_to_be_split_as_probed(made, is_split_so):
  attempt = Attempt(b'', Partitioner.SHARDY, padded={1: ((10, 6), (16, 6))})
  layouts = ['{replicated}'] + [made] * (made is not None)
  failed = attempt.failure(_outcome(*layouts))
  assert failed == (None if is_split_so else
                    ('result 1 is split otherwise than the probe reported',
                     Failure.PADDING))


def test_what_is_even_is_left_alone():
  before = '''
    p = f32[16,6] parameter(0), sharding={devices=[8,1]<=[8]}
    q = f32[10,6] parameter(1), sharding={replicated}
    r = f32[] parameter(2)
    c = f32[10,6] custom-call(q), custom_call_target="Sharding",
      sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
    ROOT t = (f32[10,6], f32[]) tuple(c, r)'''
  text = _text(before)
  assert 'slice' not in text and 'pad' not in text and '[16,6]' in text


def _cases():
  """Shape, spec, dtype, and a mesh: rank 1 to 5, tuples, few elements."""
  mesh = {}
  line = dict(shape=(8,), names=('d',))
  cube = dict(shape=(2, 2, 2), names=('a', 'b', 'c'))
  return [
      ((5,), ('y',), torch.float32, mesh),
      ((1,), (('x', 'y'),), torch.float32, mesh),
      ((3,), (('y', 'x'),), torch.int32, dict(ids=_PERMUTED)),
      ((7, 3), ('x', 'y'), torch.bfloat16, mesh),
      ((13, 2), (('y', 'x'), None), torch.float64, mesh),
      ((10, 6), ('d', None), torch.float16, line),
      ((9, 9), ('x', 'y'), torch.int64, dict(ids=_PERMUTED)),
      ((5, 5), (None, 'y'), torch.bool, mesh),
      ((3, 3, 3), (None, 'y', 'x'), torch.uint8, mesh),
      ((5, 2, 7), ('a', 'b', 'c'), torch.complex64, cube),
      ((3, 4, 5, 1), (('a', 'c'), None, 'b', None), torch.int8, cube),
      ((3, 1, 5, 2, 7), ('x', None, 'y', None, None), torch.float32, mesh),
      ((2, 3, 1, 1, 3), (None, None, 'y', None, 'x'), torch.int16, mesh),
  ]


def _run_case(shape, spec, dtype, on) -> None:
  """A use, an update in place, a marked intermediate, and reads."""
  mesh = _mesh(**on)
  torch.manual_seed(0)
  a = torch.randint(0, 5, shape).to(dtype)
  b = torch.randint(0, 2, shape).to(dtype)
  x = sharded(
      a, mesh, spec,
      tuple(range(len(shape)))[::-1] if all(spec) else tuple(
          None if s is None else i for i, s in enumerate(spec)))
  torch_xla.sync(wait=True)
  placed = torch_xla._XLAC._get_xla_sharding_spec(x)
  with torch_xla.shardy.record() as programs:
    for _ in range(2):
      y = torch.where(b.to('xla') == 0, x, b.to('xla'))
      xs.mark_sharding(y, mesh, spec)
      for t, other in ((a, b), (x, b.to('xla'))):
        t.logical_xor_(other) if dtype == torch.bool else t.mul_(2).sub_(other)
      torch_xla.sync(wait=True)
      assert torch_xla._XLAC._get_xla_sharding_spec(x) == placed
      check_shards(x, a, mesh, spec)
      total = x.sum().item() if dtype.is_floating_point else None
    close(x.cpu(), a)
  _check_all_shardy(programs)
  # As its user knows it.
  tensor, *_ = [
      t for t in programs[0].tensors
      if t.parameter is not None and t.spec and t.shape.dims == tuple(shape)
  ]
  assert tensor.compiled == tensor.placement
  if total is not None:
    close(torch.tensor(total, dtype=dtype), a.sum(), rtol=1e-2, atol=1e-2)
  del y


@pytest.mark.parametrize('case', _cases(), ids=str)
def test_numbers_and_layouts(case):
  _run_case(*case)


@_STABLEHLO
@pytest.mark.nightly
def test_numbers_and_layouts_in_stablehlo():
  for case in _cases():
    _run_case(*case)


def _check_compiles(probes: int) -> None:
  """Checks that either order of priorities flips what is moved.

  Args:
    probes: how often the backend is asked first how it splits results.
  """
  mesh = _mesh()
  a, b = torch.randn(10, 8), torch.randn(10, 8)
  for of_a in 0, 1:
    x = sharded(a, mesh, ('x', None), (of_a, None))
    y = sharded(b, mesh, ('y', None), (1 - of_a, None))
    torch_xla.sync(wait=True)
    with torch_xla.shardy.record() as programs:
      z, w = x * y, y + 1
      torch_xla.sync(wait=True)
    _check_all_shardy(programs)
    program, = programs
    assert [one.reason for one in program.given_up
           ] == ['asked how it splits 2 results'] * probes
    assert str(program).count('\n  attempt before: shardy, ') == probes
    for t, expected in ((z, a * b), (w, b + 1)):
      close(t.cpu(), expected)
    spec_of = torch_xla._XLAC._get_xla_sharding_spec
    assert spec_of(z).startswith('{devices=[4,' if of_a else '{devices=[2,')
    assert spec_of(w).startswith('{devices=[4,1,2]')


def test_a_program_is_compiled_once():
  _check_compiles(1)


@_STABLEHLO
@pytest.mark.slow
def test_a_program_is_compiled_once_in_stablehlo():
  _check_compiles(0)


def test_unevenly_split_indices() -> None:
  """XLA would scatter the padding of its own that it splits them with."""
  mesh = _mesh(shape=(2, 2, 2), names=('a', 'b', 'c'))
  a, index = torch.randn(8, 17, 8, 2), torch.tensor([3])
  x = sharded(a, mesh, (None, None, ('b', 'a'), None), (1, None, None, 5))
  i = sharded(index, mesh, ('c',))
  torch_xla.sync(wait=True)
  with torch_xla.shardy.record() as programs:
    y = torch.maximum(x.index_copy(0, i, x[-1:]), x)
    torch_xla.sync(wait=True)
  _check_all_shardy(programs)
  assert not [t for t in programs[0].tensors if t.parameter is None]
  close(y.cpu(), torch.maximum(a.index_copy(0, index, a[-1:]), a))


def test_unevenly_split_updates():
  mesh = _mesh(shape=(8,), names=('a',))
  a, index = torch.randn(6, 4), torch.randint(6, (6, 4))
  x = sharded(a, mesh, ('a', None))
  y = torch.zeros_like(x).scatter_add(0, index.to('xla'), x + 1)
  torch_xla.sync(wait=True)
  close(y.cpu(), torch.zeros_like(a).scatter_add(0, index, a + 1))


@pytest.mark.slow
def test_training_with_uneven_weights():
  """Donated weights and their momentum; three steps as on one device."""
  mesh = _mesh()
  torch.manual_seed(0)
  model = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.Linear(10, 3))
  on_device = torch.nn.Sequential(
      torch.nn.Linear(6, 10), torch.nn.Linear(10, 3))
  on_device.load_state_dict(model.state_dict())
  on_device = on_device.to('xla')
  for parameter in on_device.parameters():
    spec = (('x', 'y'),) + (None,) * (parameter.dim() - 1)
    xs.mark_sharding(
        parameter, mesh, spec, priority=(1,) + (None,) * (parameter.dim() - 1))
  data = torch.randn(7, 6)
  x = sharded(data, mesh, ('y', None), (0, None))
  optimizers = [
      torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
      for m in (model, on_device)
  ]
  torch_xla.sync(wait=True)
  with torch_xla.shardy.record() as programs:
    for _ in range(3):
      for m, optimizer, given in zip((model, on_device), optimizers, (data, x)):
        optimizer.zero_grad()
        loss = m(given).square().mean()
        loss.backward()
        optimizer.step()
      torch_xla.sync(wait=True)
    for expected, got in zip(model.parameters(), on_device.parameters()):
      close(got.detach().cpu(), expected.detach())
  _check_all_shardy(programs)


def test_a_loop_over_a_split_value():
  mesh = xs.Mesh(np.arange(8)[::-1], (2, 4), ('a', 'b'))
  x = torch.arange(48.).reshape(8, 6) / 48
  split = x.to('xla')
  xs.mark_sharding(split, mesh, ('a', 'b'))
  _, y = while_loop(lambda i, t: i > 0, lambda i, t: (i - 1, torch.tanh(t + t)),
                    (torch.tensor(3).to('xla'), split))
  for _ in range(3):
    x = torch.tanh(x + x)
  torch.testing.assert_close(y.cpu(), x)
  assert torch_xla.shardy.programs()[-1].partitioner is Partitioner.SHARDY
