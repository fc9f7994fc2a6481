"""What records, their tables and `lower_text` say of programs that ran."""

import re

import convolution_steps
import environments
import numpy as np
import pytest
from shards import sharded
import torch
import torch_xla
import torch_xla.debug.metrics as met
import torch_xla.distributed.spmd as xs
from torch_xla.shardy.hlo import messages, protos
from torch_xla.shardy.hlo.compile_options import Partitioner

ENVIRONMENT = environments.SHARDY
pytestmark = pytest.mark.usefixtures('spmd')
close = torch.testing.assert_close


def _sync_one():
  with torch_xla.shardy.record() as programs:
    torch_xla.sync(wait=True)
  program, = programs
  return program


def test_tensors_of_a_record(mesh):
  """A contraction over 'y': one all-reduce of what each device computes."""
  a, b = torch.randn(8, 16), torch.randn(16, 12)
  x = sharded(a, mesh, ('x', 'y'), (0, 1))
  w = sharded(b, mesh, ('y', None))
  plain = torch.randn(12).to('xla')
  torch_xla.sync(wait=True)
  h = x @ w
  xs.mark_sharding(h, mesh, ('x', None), priority=(2, None))
  y = (h + plain).relu()
  program = _sync_one()
  close(y.cpu(), (a @ b + plain.cpu()).relu())
  assert program.partitioner is Partitioner.SHARDY and not program.note

  parameters = {t.spec: t for t in program.tensors if t.parameter is not None}
  assert len(parameters) == 3
  one = parameters["('x', 'y')"]
  assert str(one.shape) == 'f32[8,16]'
  assert one.priority == (0, 1)
  assert one.sdy == '#sdy.sharding<@mesh, [{"x"}p0, {"y"}p1]>'
  assert one.compiled == '{devices=[2,4]<=[8]}'
  assert str(one.local_shape) == 'f32[4,4]'
  two = parameters["('y', None)"]
  assert two.priority is None
  assert two.sdy == '#sdy.sharding<@mesh, [{"y"}, {}]>'
  assert str(two.local_shape) == 'f32[4,12]'
  rest = parameters[None]
  assert (rest.sdy, rest.compiled) == ('#sdy.sharding<@mesh, [{}]>',
                                       '{replicated}')

  mark, = [t for t in program.tensors if t.parameter is None and t.spec]
  assert (mark.spec, mark.priority) == ("('x', None)", (2, None))
  assert mark.sdy == ('#sdy.sharding_per_value<[<@mesh, [{"x"}p2, {}]>]>')
  # No parameter is missing, and every one said is one of the program sent.
  sent = messages.parse(protos.HloModuleProto, program.sent)
  entry, = [c for c in sent.computations if c.id == sent.entry_computation_id]
  numbers = [
      i.parameter_number for i in entry.instructions if i.opcode == 'parameter'
  ]
  assert sorted(numbers) == [
      t.parameter for t in program.tensors if t.parameter is not None
  ]
  # Sums of 4x12 f32 on each device.
  assert [(c.kind, c.count, c.nbytes) for c in program.collectives
         ] == [('all-reduce', 1, 4 * 12 * 4)]


def test_table(mesh):
  x = sharded(torch.randn(8, 16), mesh, ('x', None), (0, None))
  w = sharded(torch.randn(8, 16), mesh, ('y', None), (1, None))
  plain = torch.randn(16).to('xla')
  torch_xla.shardy.name_tensors({'the.input': x, 'the.weight': w})
  torch_xla.sync(wait=True)
  y = x * w + plain
  program = _sync_one()
  del y
  text = str(program)
  first, header, *rows = text.splitlines()
  assert re.match(
      r'SyncTensorsGraph\.\d+  shardy  8 partitions  '
      r'shardings: \d+ V2 0 V1  compiled in \d+\.\d\d s$', first)
  assert header.split('  ')[1].strip() == 'tensor'
  row = {r.split()[0]: re.split(r' {2,}', r.strip()) for r in rows}
  assert row['the.input'] == [
      'the.input', 'f32[8,16]', "('x', None)", '(0, None)', '[{"x"}p0, {}]',
      'f32[4,16]'
  ]
  assert row['the.weight'] == [
      'the.weight', 'f32[8,16]', "('y', None)", '(1, None)', '[{"y"}p1, {}]',
      'f32[2,16]'
  ]
  assert '  and 1 held whole on every device' in rows
  moved = [r for r in rows if r.startswith('  collectives: ')]
  assert len(moved) == 1
  for c in program.collectives:
    assert f'{c.count} {c.kind} ({c.nbytes:,} bytes)' in moved[0]
  # The columns stand under each other.
  column = header.index('asked for')
  named = [r for r in rows if r.lstrip().startswith('the.')]
  assert [r[column:column + 2] for r in named] == ["('", "('"]
  assert all(r[column - 2:column] == '  ' for r in named)


def test_names_stay_with_their_tensors(mesh):
  """Also after an update in place, and with two that look alike."""
  x = sharded(torch.randn(8, 8), mesh, ('x', None), (0, None))
  w = sharded(torch.randn(8, 8), mesh, ('x', None), (1, None))
  torch_xla.shardy.name_tensors({'x': x, 'w': w})
  torch_xla.sync(wait=True)
  w.add_(x)
  program = _sync_one()
  assert {
      t.name: t.priority for t in program.tensors if t.name
  } == {
      'x': (0, None),
      'w': (1, None)
  }
  w.mul_(x).sub_(1)
  program = _sync_one()
  assert {
      t.name: t.priority for t in program.tensors if t.name
  } == {
      'x': (0, None),
      'w': (1, None)
  }
  torch_xla.shardy.name_tensors({'renamed': w})
  w.div_(2).tanh_()
  program = _sync_one()
  # Only what the program starts from.
  assert {t.name for t in program.tensors if t.name} == {'renamed'}


def test_programs_keeps_what_record_gives(mesh):
  x = sharded(torch.randn(8, 24), mesh, ('x', None), (0, None))
  torch_xla.sync(wait=True)
  y = x.sinh()
  program = _sync_one()
  del y
  assert program.sent and program.handed_on and program.options_handed_on
  kept = torch_xla.shardy.programs()[-1]
  assert kept == program.without_programs()
  assert kept.tensors == program.tensors and not kept.sent


def test_lower_text_is_what_is_handed_on(mesh):
  """And nothing is compiled or run for it, and nothing of it stays."""
  a = torch.randn(8, 40)
  x = sharded(a, mesh, ('x', None), (4, 7))
  torch_xla.sync(wait=True)
  y = x.cosh()
  met.clear_all()
  with torch_xla.shardy.record() as programs:
    text = torch_xla.shardy.lower_text([y])
  assert programs == []
  assert met.metric_data('CompileTime') is None
  assert met.metric_data('ExecuteReplicatedTime') is None
  assert 'xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=4]>}' in text
  assert text.count(
      r'#sdy.sharding_per_value<[<@mesh, [{\"x\"}p4, {?}p7]>]>') == 1
  assert 'torch_xla.shardy' not in text
  program = _sync_one()
  assert program.partitioner is Partitioner.SHARDY
  close(y.cpu(), a.cosh())
  handed_on = torch_xla._XLAC._xla_computation_text(
      torch_xla._XLAC._xla_op_computation_from_module_proto(
          'handed_on', program.handed_on))
  sdy = re.compile(r'xla\.sdy\.\w+=(?:"(?:[^"\\]|\\.)*"|{mesh = .*?>})')
  assert sorted(sdy.findall(text)) == sorted(sdy.findall(handed_on))
  assert sdy.findall(text)


def test_lower_text_of_a_program_for_gspmd(mesh):
  """Two orders of devices: the text is the one in V2."""
  other = xs.Mesh(np.array((7, 1, 2, 3, 4, 5, 6, 0)), (4, 2), ('a', 'b'))
  x = sharded(torch.randn(8, 8), mesh, ('x', None), (0, None))
  y = sharded(torch.randn(8, 8), other, ('a', None), (0, None))
  torch_xla.sync(wait=True)
  text = torch_xla.shardy.lower_text([x + y])
  assert 'xla.sdy' not in text and 'torch_xla.shardy' not in text
  assert '<=[8]' in text


def test_lower_text_with_nothing_pending(mesh):
  x = sharded(torch.randn(8, 8), mesh, ('x', None))
  torch_xla.sync(wait=True)
  for tensors in [x], []:
    with pytest.raises(ValueError, match='nothing pending|anything pending'):
      torch_xla.shardy.lower_text(tensors)


@pytest.mark.parametrize('name', convolution_steps.CASES)
def test_convolutions_that_xla_would_partition_wrong(name):
  """Right with Shardy, in the first attempt; the record says what was done."""
  program = convolution_steps.check(name)
  assert program.partitioner is Partitioner.SHARDY
  products = '' if name == 'along the window' else '1 written out as products, '
  count = 2 if products else 3
  assert program.note == (
      f'convolutions, so that XLA partitions them right: {products}{count} with '
      'operands held whole along the window')
  assert f'\n  note: {program.note}' in str(program)


@pytest.mark.slow
@pytest.mark.parametrize('name', convolution_steps.OF_UNORDERED_DEVICES)
def test_devices_in_no_order(name):
  program = convolution_steps.check(name)
  assert program.partitioner is Partitioner.SHARDY
  # Eight devices do not divide the batch of the convolution.
  assert ('products, as the mesh has its devices in no regular'
          in program.note) is (name != 'a convolution')
