"""Names of what a script computes, which change no program."""

import re

import environments
import numpy as np
import processes
import pytest
import torch

ENVIRONMENT = {}  # Beside the tests that need no child.


class Net(torch.nn.Module):

  def __init__(self):
    super().__init__()
    self.blocks = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(2))
    self.syncs = False

  def forward(self, tokens, scale=None):
    x = tokens
    for block in self.blocks:
      x = torch.relu(block(x))
    if self.syncs:
      import torch_xla
      torch_xla.sync()
    return x * scale


def _train(is_named: bool, is_compiled: bool, fails: bool = False):
  """Instructions of the programs, what is new to the runtime, and names."""
  import torch_xla
  from torch_xla.debug import metrics
  import torch_xla.distributed.spmd as xs
  import torch_xla.runtime as xr
  from torch_xla.shardy import door, operation_names, script_names
  from torch_xla.shardy.hlo import messages
  from torch_xla.shardy.hlo.protos import HloModuleProto
  xr.use_spmd()
  names = script_names.ScriptNames() if is_named else None
  arguments, programs, modules = [], [], {''}

  def look(compilation, rest):
    if names is not None:
      arguments.append(names.of_parameters(compilation))
    parsed = messages.parse(HloModuleProto, compilation.program)
    programs.append([(i.opcode, tuple(i.operand_ids))
                     for c in parsed.computations
                     for i in c.instructions])
    modules.update(
        operation_names.module_of(i.metadata.op_name)
        for c in parsed.computations
        for i in c.instructions)
    rest(compilation)

  door.wrap(look)
  net = Net().to('xla')
  mesh = xs.Mesh(np.arange(8), (8,), ('x',))
  xs.mark_sharding(net.blocks[0].weight, mesh, ('x', None))
  step = torch.compile(net, backend='openxla') if is_compiled else net
  optimizer = torch.optim.AdamW(net.parameters())
  for _ in range(2):
    step(
        torch.ones(4, 8).to('xla'),
        scale=torch.ones(4, 8).to('xla')).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
  if fails:
    net.syncs = True
    net(torch.ones(4, 8).to('xla'), scale=torch.ones(4, 8).to('xla'))
    with pytest.raises(TypeError):
      net(torch.ones(4, 8).to('xla'))
    torch_xla.sync()  # No scope is left.
  if is_named and not is_compiled:  # XLA keeps the names.
    sources = [
        source for c in torch_xla.shardy.programs()[0].collectives or ()
        for source, _, _ in c.sources
    ]
    assert any(map(operation_names.module_of, sources)), sources
  return (programs, metrics.counter_value('UncachedCompile'),
          [sorted(a.values()) for a in arguments], modules)


@pytest.mark.slow
@pytest.mark.parametrize(
    'is_compiled', [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_programs_stay_as_they_are(is_compiled):
  settings = dict(PJRT_DEVICE='CPU', CPU_NUM_DEVICES='8', XLA_USE_SHARDY='1')
  before, after = (
      processes.call(_train, is_named, is_compiled, **settings).value
      for is_named in (False, True))
  assert before[:2] == after[:2]
  assert before[3] == {''}
  if is_compiled:
    assert 'exp_avg of blocks.1.weight' in after[2][-1]
    return
  assert after[3] == {
      '', 'AdamW', 'Net', 'Net.backward',
      *(f'blocks.{n}{way}' for n in range(2) for way in ('', '.backward'))
  }
  weights = {f'blocks.{n}.{of}' for n in range(2) for of in ('weight', 'bias')}
  moments = {
      f'{of} of {w}' for of in ('exp_avg', 'exp_avg_sq') for w in weights
  }
  batch = {'tokens of Net', 'scale of Net'}
  assert [set(names) for names in after[2]
         ] == [weights | batch, weights | batch | moments]


@pytest.mark.nightly
def test_a_sync_in_a_module():
  processes.call(
      _train,
      True,
      False,
      True,
      PJRT_DEVICE='CPU',
      XLA_USE_SHARDY='1',
      CPU_NUM_DEVICES='8')


def _called() -> list[str]:
  """A record's names of tensors of no module that one line marks."""
  import torch_xla
  import torch_xla.distributed.spmd as xs
  import torch_xla.runtime as xr
  from torch_xla.shardy import script_names
  xr.use_spmd()
  script_names.ScriptNames()
  mesh = xs.Mesh(np.arange(8), (8,), ('x',))

  def mark(t: torch.Tensor) -> torch.Tensor:
    return xs.mark_sharding(t, mesh, ('x', None)).global_tensor

  x, w = torch.ones(8, 8).to('xla'), torch.ones(8, 8).to('xla')
  mark(x)
  mark(w)
  out = x * 2 + w
  torch_xla.sync()
  del out
  return [t.name for t in torch_xla.shardy.programs()[-1].tensors if t.spec]


def test_a_tensor_of_no_module_has_the_line_of_its_mark():
  names = processes.call(_called, **environments.SHARDY).value
  for name, function in zip(sorted(names), ('mark', '_called'), strict=True):
    assert re.fullmatch(
        rf'tensor marked at .*script_names_test.py:\d+ in {function}', name)
