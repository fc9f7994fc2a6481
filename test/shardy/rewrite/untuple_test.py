"""Programs of so many parameters that they are handed over as one tuple."""

import annotated_modules as modules
import numpy as np
from printed import assert_printed
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy.hlo import messages, protos
from torch_xla.shardy.hlo.compile_options import Partitioner
from torch_xla.shardy.rewrite import untuple
from torch_xla.shardy.sdy.mesh_axes import InexpressibleError

ENVIRONMENT = {
    'PJRT_DEVICE': 'CPU',
    'CPU_NUM_DEVICES': '8',
    'XLA_USE_SHARDY': '1',
    'XLA_PARAMETER_WRAPPING_THREADSHOLD': '2',
}
close = torch.testing.assert_close
_PROGRAM = '''
program {
  a = f32[8] parameter(0)
  b = f32[4] parameter(1)
  n = f32[8] negate(a)
  ROOT t = (f32[8], f32[4]) tuple(n, b)
}'''
_SAID = '{{devices=[8]<=[8]}, {replicated}}'


def _text(module) -> str:
  from jaxlib import _hlo as hlo
  text = hlo.HloModule.from_serialized_hlo_module_proto(
      module.SerializeToString()).to_string()
  return text.replace('%', '').replace('{0}', '')


def _module(entry: str, header: str = ''):
  pytest.importorskip('jaxlib._hlo', reason='needs jaxlib: HLO text')
  return modules.module_of(entry, _PROGRAM, header)


def test_the_computation_is_the_program():
  module = _module(
      f'''
    in = (f32[8], f32[4]) parameter(0), sharding={_SAID}
    a = f32[8] get-tuple-element(in), index=0
    b = f32[4] get-tuple-element(in), index=1
    ROOT r = (f32[8], f32[4]) call(a, b), to_apply=program''',
      header=', buffer_donor={ (0, {1}) }')
  assert untuple.is_tupled(module)
  untuple.unwrap(module)
  assert not untuple.is_tupled(module)
  text = _text(module)
  assert 'buffer_donor={ (1, {}) }' in text
  assert_printed(
      text[text.index('ENTRY'):].strip(), '''\
ENTRY program (a: f32[8], b: f32[4]) -> (f32[8], f32[4]) {
  a = f32[8] parameter(0), sharding={devices=[8]<=[8]}
  n = f32[8] negate(a)
  b = f32[4] parameter(1), sharding={replicated}
  ROOT t = (f32[8], f32[4]) tuple(n, b)
}''')


@pytest.mark.parametrize('entry', [
    '''
    in = (f32[8], f32[4]) parameter(0)
    a = f32[8] get-tuple-element(in), index=0
    b = f32[4] get-tuple-element(in), index=1
    m = f32[8] negate(a)
    ROOT r = (f32[8], f32[4]) call(m, b), to_apply=program''',
    '''
    in = (f32[8], f32[4]) parameter(0)
    ROOT a = f32[8] get-tuple-element(in), index=0''',
    '''
    in = (f32[8], f32[4], f32[2]) parameter(0)
    a = f32[8] get-tuple-element(in), index=0
    b = f32[4] get-tuple-element(in), index=1
    ROOT r = (f32[8], f32[4]) call(a, b), to_apply=program''',
])
def test_a_program_that_does_more(entry):
  module = _module(entry)
  before = module.SerializeToString(deterministic=True)
  with pytest.raises(InexpressibleError, match='handed over as one tuple'):
    untuple.unwrap(module)
  assert module.SerializeToString(deterministic=True) == before


def test_no_program_at_all():
  with pytest.raises(ValueError, match='without an entry computation'):
    untuple.unwrap(messages.make(protos.HloModuleProto))


def _train() -> None:
  """Updates in place, uneven ones too, reads, and donated data."""
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))
  torch.manual_seed(0)
  host = [torch.randn(8, 8 + i % 2) for i in range(6)]
  device = []
  for i, t in enumerate(host):
    device.append(t.to('xla'))
    xs.mark_sharding(
        device[-1], mesh, ('x', 'y') if i % 2 else (None, 'x'), priority=(0, i))
  torch_xla.sync(wait=True)
  placed = [torch_xla._XLAC._get_xla_sharding_spec(t) for t in device]
  with torch_xla.shardy.record() as programs:
    for _ in range(3):
      for tensors in (host, device):
        total = sum(t.sum(1) for t in tensors)
        for t in tensors[1:]:
          t.mul_(0.5).add_(total[:, None])
      torch_xla.sync(wait=True)
    for a, x in zip(host, device):
      close(x.cpu(), a)
  for program in programs:
    assert program.partitioner is Partitioner.SHARDY, program.note
    assert not program.note
  assert {t.priority for t in programs[0].tensors if t.spec
         } == {(0, i) for i in range(6)}
  assert placed == [torch_xla._XLAC._get_xla_sharding_spec(t) for t in device]


def test_they_are_shardys():
  _train()


@pytest.mark.environment(XLA_STABLEHLO_COMPILE='1')
def test_they_are_shardys_in_stablehlo():
  _train()
