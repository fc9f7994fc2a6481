"""Names of bound tensors, as records show them, told and found."""

import environments
import numpy as np
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
from torch_xla.experimental.spmd_fully_sharded_data_parallel import (
    SpmdFullyShardedDataParallel as FSDPv2)
from torch_xla.shardy.bind.names import BoundNames

ENVIRONMENT = environments.SHARDY


def _put(mesh: xs.Mesh,
         name: str,
         is_weight: bool,
         columns: int = 8) -> torch.Tensor:
  t = torch.randn(16, columns).to('xla')
  if is_weight:
    t = torch.nn.Parameter(t, requires_grad=False)
  xs.mark_sharding(t, mesh, ('y', None))
  torch_xla.shardy.name_tensors({name: t})
  return t


def _named(program) -> dict[str, int]:
  return {t.name: t.parameter for t in program.tensors if t.name}


def test_a_weight_and_another_tensor_of_which_the_same_was_said(mesh):
  """Their two bindings say the same, and are told apart all the same."""
  weight, other = _put(mesh, 'weight', True), _put(mesh, 'other', False, 1)
  torch_xla.sync()
  for change in (torch.sin, torch.cos, torch.tanh):
    with torch_xla.shardy.record() as programs:
      out = weight * 2 + change(other)
      torch_xla.sync()
    program, = programs
    shapes = {t.name: t.shape.dims for t in program.tensors if t.name}
    assert shapes == {'weight': (16, 8), 'other': (16, 1)}
    weight.add_(1)
  del out


def test_a_weight_annotated_while_another_is_pending(mesh):
  """A sync then has two bindings of weights of which the same was said."""
  first = _put(mesh, 'first', True, 40)
  torch_xla.sync()
  first.mul_(2)
  second = _put(mesh, 'second', True, 48)
  with torch_xla.shardy.record() as programs:
    out = first.sum() + second.sum()
    torch_xla.sync()
  shapes = {t.name: t.shape.dims for p in programs for t in p.tensors if t.name}
  assert shapes == {'first': (16, 40), 'second': (16, 48)}
  del out


def test_two_compiled_models_of_which_the_same_was_said(mesh):
  first, second = _put(mesh, 'first', True), _put(mesh, 'second', True, 24)
  for name, weight in (('first', first), ('second', second)):
    f = torch.compile(lambda a, w=weight: a @ w, backend='openxla')
    x = torch.randn(4, 16)
    with torch_xla.shardy.record() as programs:
      torch.testing.assert_close(f(x.to('xla')).cpu(), x @ weight.cpu())
    assert {name} <= {n for p in programs for n in _named(p)}
    torch._dynamo.reset()


def test_naming_a_tensor_compiles_nothing_anew(mesh):
  weight = _put(mesh, 'before', True)
  torch_xla.sync()
  for name in ('before', 'after'):
    torch_xla.shardy.name_tensors({name: weight})
    with torch_xla.shardy.record() as programs:
      out = weight * 7
      torch_xla.sync()
    assert len(programs) == (1 if name == 'before' else 0)
  del out


@pytest.fixture(name='fsdp_mesh')
def fsdp_mesh_fixture(spmd) -> xs.Mesh:
  del spmd
  return xs.Mesh(np.arange(8), (8, 1), ('fsdp', 'y'))


class Net(torch.nn.Module):

  def __init__(self):
    super().__init__()
    self.up = torch.nn.Linear(16, 32)
    self.down = torch.nn.Linear(32, 16)

  def forward(self, x: torch.Tensor) -> torch.Tensor:
    return self.down(torch.tanh(self.up(x)))


def _program_of(compute, x: torch.Tensor):
  torch_xla.sync()
  with torch_xla.shardy.record() as programs:
    out = compute(x)
    torch_xla.sync()
  del out
  return next(p for p in programs if p.tensors)


_NAMES = {'up.weight', 'up.bias', 'down.weight', 'down.bias'}


def test_names_found_by_fsdp(fsdp_mesh):
  x = torch.randn(8, 16).to('xla')
  model = FSDPv2(Net(), mesh=fsdp_mesh)
  assert {t.name for t in _program_of(model, x).tensors if t.name} == _NAMES


def test_names_found_of_a_module_and_what_is_in_none(fsdp_mesh):
  net = Net().to('xla')
  xs.mark_sharding(net.up.weight, fsdp_mesh, ('fsdp', None), priority=(0, None))
  x = torch.randn(8, 16).to('xla')
  xs.mark_sharding(x, fsdp_mesh, ('fsdp', None), priority=(1, None))
  program = _program_of(lambda x: net(x), x)
  named = {t.name: t.shape.dims for t in program.tensors if t.spec}
  assert named == {'up.weight': (32, 16), '': (8, 16)}
  assert 'up.weight' in str(program)


def test_a_checkpoints_shards_in_the_place_of_data(mesh):
  """Priorities count in the first step."""
  w = torch.nn.Parameter(torch.zeros(8, 8).to('xla'))
  xs.mark_sharding(w, mesh, ('y', None), priority=(1, None))
  torch_xla.sync(wait=True)
  # As a state dict has it: not the object that was marked.
  loaded = xs.wrap_if_sharded(w.detach())
  shards = loaded.local_shards
  for shard in shards:
    shard.data.fill_(2)
  loaded.load_local_shards_(shards)
  with torch_xla.shardy.record() as programs:
    out = w * 3
    torch_xla.sync(wait=True)
  assert "('y', None)  (1, None)" in str(programs[0])
  # And not what it had before.
  assert str(programs[0]).count('f32[8,8]') == 1
  assert torch.equal(out.cpu(), torch.full((8, 8), 6.))


def test_names_are_asked_for_when_they_are_needed():
  names, tensors = BoundNames(), ['w']
  names.remember('bind 1', lambda: tuple(tensors))
  tensors.append('v')
  assert names.get('bind 1') == ('w', 'v')


def test_the_later_of_two_with_one_target_counts():
  names = BoundNames()
  names.remember('bind 1', lambda: ('old',))
  names.remember('bind 2', lambda: ('other',))
  names.remember('bind 1', lambda: ('new',))
  assert names.get('bind 1') == ('new',)
  assert names.get('bind 2') == ('other',)


def test_the_latest_are_kept():
  """A process binds at every step; those of before hold on to its tensors."""
  names = BoundNames()
  for step in range(1000):
    names.remember('bind 0', lambda: ('again',))
    names.remember(f'bind {step + 1}', lambda: (f'{step}',))
    assert names.get('bind 0') == ('again',)
  kept = [t for t in range(1, 1001) if names.get(f'bind {t}')]
  assert 8 <= len(kept) <= 100
  assert kept == list(range(1001 - len(kept), 1001))
