"""Names of bound tensors, as records show them."""

import environments
import torch
import torch_xla
import torch_xla.distributed.spmd as xs

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
