"""Shardy makes of torch's programs what it makes of jax's of the same maths.

Each program has two shardings that contend for the result, and is run with
either first. What is expected is what jaxlib's Shardy makes of jax's program.
torch has other operations for it: it merges dimensions before a product of
matrices (`rewrite.dot_dims`), and counts along those that a gather goes along
(`rewrite.index_dims`).
"""

from __future__ import annotations

from collections.abc import Callable
import dataclasses
import re

import numpy as np
import programs
import pytest
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy.hlo.compile_options import Partitioner
from torch_xla.shardy.sharding.partition_spec import sharding_of

jax = pytest.importorskip('jax', reason='needs jax: it is who to be like')
pytestmark = pytest.mark.slow

ENVIRONMENT = {**programs.ENVIRONMENT, 'JAX_PLATFORMS': 'cpu'}
_PROPAGATE = 'builtin.module(sdy-propagation-pipeline)'
_B, _S, _H, _D = 8, 4, 4, 8


@pytest.fixture(scope='module', name='mesh')
def mesh_fixture() -> xs.Mesh:
  xr.use_spmd()
  return xs.Mesh(np.arange(8), tuple(programs.AXES.values()), ('x', 'y'))


@dataclasses.dataclass(frozen=True)
class Case:
  """A computation in torch and in jax.

  Attributes:
    specs: of the arguments.
    sides: which of two sides an argument is on; -1 is without a priority.
    below: what indices are below; 0 for arguments that are none.
  """
  torch: Callable
  jax: Callable
  shapes: tuple[tuple[int, ...], ...]
  specs: tuple[programs.Spec, ...]
  sides: tuple[int, ...]
  below: tuple[int, ...] = (0,) * 4


def _heads_torch(x, *weights):
  q, k, v = ((x @ w).view(_B, _S, _H, _D).transpose(1, 2) for w in weights)
  y = F.scaled_dot_product_attention(q, k, v)
  return y.transpose(1, 2).reshape(_B, _S, _H * _D)


def _heads_jax(x, *weights):
  np = jax.numpy
  q, k, v = (
      np.transpose((x @ w).reshape(_B, _S, _H, _D), (0, 2, 1, 3))
      for w in weights)
  scores = np.einsum('bhqd,bhkd->bhqk', q, k) * _D**-0.5
  y = np.einsum('bhqk,bhkd->bhqd', jax.nn.softmax(scores, -1), v)
  return np.transpose(y, (0, 2, 1, 3)).reshape(_B, _S, _H * _D)


_WEIGHTS = ((_H * _D, _H * _D),) * 3
_ATTENTION = Case(_heads_torch, _heads_jax, ((_B, _S, _H * _D), *_WEIGHTS),
                  (('y', None, None), *((None, 'y'),) * 3), (0, 1, 1, 1))
# The second dimension of a batch against the features of a weight.
_LINEAR = Case(lambda x, w, b: F.linear(x, w, b),
               lambda x, w, b: jax.numpy.einsum('bse,fe->bsf', x, w) + b,
               ((2, 8, 16), (32, 16), (32,)),
               ((None, 'y', None), ('y', None), ('y',)), (0, 1, 1))
_BATCHES = Case(lambda a, b: torch.matmul(a, b), lambda a, b: a @ b,
                ((2, 4, 8, 6), (2, 4, 6, 8)),
                ((None, 'y', None, None), (None, None, None, 'y')), (0, 1))
_GATHER_ROWS = Case(lambda x, i: torch.gather(x, 0, i),
                    lambda x, i: jax.numpy.take_along_axis(x, i, 0),
                    ((16, 16), (8, 16)), ((None, 'y'), ('y', None)), (0, 1),
                    (0, 16))
_GATHER_COLUMNS = Case(lambda x, i: torch.gather(x, 1, i),
                       lambda x, i: jax.numpy.take_along_axis(x, i, 1),
                       ((16, 16), (16, 8)), (('y', None), (None, 'y')), (0, 1),
                       (0, 16))
# In between; of a result, see below.
_PUT = Case(lambda x, i, v: torch.sin(torch.index_put(x, (i,), v)),
            lambda x, i, v: jax.numpy.sin(x.at[i].set(v)),
            ((16, 16), (8,), (8, 16)), (('y', None), (None,), (None, 'y')),
            (0, -1, 1), (0, 16, 0))
_CASES = {
    'attention, heads merged': _ATTENTION,
    'linear': _LINEAR,
    'matmul': _BATCHES,
    'gather rows': _GATHER_ROWS,
    'gather columns': _GATHER_COLUMNS,
    'index_put': _PUT,
}


def _by_jax(case: Case, first: int) -> tuple[programs.Spec, str]:
  """The partition spec of the result, and the module."""
  from jax._src.interpreters import mlir
  from jaxlib.mlir import ir, passmanager
  arguments = [
      jax.ShapeDtypeStruct(shape, np.int32 if below else np.float32)
      for shape, below in zip(case.shapes, case.below)
  ]
  text = jax.jit(case.jax, keep_unused=True).lower(*arguments).as_text()
  for number, (spec, side) in enumerate(zip(case.specs, case.sides)):
    priority = '' if side < 0 else f'p{int(side != first)}'
    dims = ', '.join(
        f'{{"{axis}"}}{priority}' if axis else '{}' for axis in spec)
    text = re.sub(
        rf'(%arg{number}: tensor<[^>]*>)',
        rf'\1 {{sdy.sharding = #sdy.sharding<@mesh, [{dims}]>}}',
        text,
        count=1)
  text = re.sub(
      r'(module @\w+ .*\{)\n',
      r'\1\n  sdy.mesh @mesh = <["x"=2, "y"=4]>\n',
      text,
      count=1)
  with mlir.make_ir_context():
    module = ir.Module.parse(text)
    passmanager.PassManager.parse(_PROPAGATE).run(module.operation)
    after = str(module)
  main = re.search(r'@main\(.*', after).group().split('->')[1]
  rank = len(re.search(r'tensor<([\dx]*)x', main).group(1).split('x'))
  found = re.search(r'<@mesh, \[(.*?)\]>', main)
  if found is None:
    return (None,) * rank, after
  dims = re.findall(r'\{(.*?)\}', found.group(1))
  return tuple(d.strip('"') or None for d in dims), after


def _by_torch(case: Case, first: int, mesh: xs.Mesh):
  """The result's placement, the record, and how far it is from torch's."""
  torch.manual_seed(0)
  # Indices that are not repeated: of two values one would be kept.
  values = [
      torch.argsort(torch.rand(below, *shape[1:]), 0)[:shape[0]]
      if below else torch.randn(shape)
      for shape, below in zip(case.shapes, case.below)
  ]
  tensors = [value.to('xla') for value in values]
  for t, spec, side in zip(tensors, case.specs, case.sides):
    priority = None if side < 0 else tuple(
        int(side != first) if axis else None for axis in spec)
    xs.mark_sharding(t, mesh, spec, priority=priority)
  torch_xla.sync(wait=True)
  with torch_xla.shardy.record() as recorded:
    result = case.torch(*tensors)
    torch_xla.sync(wait=True)
  placement = torch_xla._XLAC._get_xla_sharding_spec(result)
  torch.testing.assert_close(
      result.cpu(), case.torch(*values), rtol=1e-4, atol=1e-4)
  return placement, recorded[0]


def _placement(spec: programs.Spec) -> str:
  """The placement over the mesh of these programs, as torch_xla reads it."""
  axes = tuple(programs.AXES)
  numbers = tuple(None if a is None else axes.index(a) for a in spec)
  return str(sharding_of((2, 4), None, numbers).to_v1())


@pytest.mark.parametrize('name', _CASES)
def test_either_order(name, mesh):
  case, specs = _CASES[name], []
  for first in (0, 1):
    spec, module = _by_jax(case, first)
    placement, record = _by_torch(case, first, mesh)
    assert record.partitioner is Partitioner.SHARDY, record.note
    assert placement == _placement(spec), f'{record.note}\n{module}'
    specs.append(spec)
  assert specs[0] != specs[1]


def test_the_result_of_index_put_is_stored_as_what_it_copies(mesh):
  """Whatever the priorities: torch_xla's sharding of it, a constraint.

  torch_xla puts by updating a copy in place, and has it be stored as the tensor
  is that it copied. In jax's program nobody says anything of the result.
  """
  case = dataclasses.replace(
      _PUT,
      torch=lambda x, i, v: torch.index_put(x, (i,), v),
      jax=lambda x, i, v: x.at[i].set(v))
  for first in (0, 1):
    placement, record = _by_torch(case, first, mesh)
    assert placement == _placement(('y', None))
    assert b'<@mesh, [{"y"}p2, {}]>' in record.handed_on
  assert _by_jax(case, 1)[0] == (None, 'y')
