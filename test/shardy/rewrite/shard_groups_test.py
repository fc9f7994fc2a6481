"""Tensors that are to be sharded alike, as the backward pass of a scan has them."""

import annotated_modules as modules
import environments
import numpy as np
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
from torch_xla.experimental.scan import scan
import torch_xla.runtime as xr
from torch_xla.shardy.hlo.compile_options import Partitioner
from torch_xla.shardy.rewrite import shard_groups

pytest.importorskip('jax', reason='xs.shard_as needs jax')

ENVIRONMENT = environments.SHARDY
_ALIKE = 'custom_call_target="Sharding", sharding={unknown shard_as 3}'


def test_shardys_groups_for_those_of_gspmd():
  module = modules.module_of(f'''
    p = f32[8] parameter(0)
    q = f32[8] parameter(1)
    a = f32[8] custom-call(p), {_ALIKE}
    b = f32[8] custom-call(q), {_ALIKE}
    c = f32[8] custom-call(b), custom_call_target="Sharding", sharding={{unknown}}
    ROOT s = f32[8] add(a, c)''')
  groups = shard_groups.extract_groups(module)
  text = modules.printed(module)
  assert 'add(p, q)' in text and 'custom-call' not in text
  shard_groups.restore_groups(module, groups)
  text = modules.printed(module)
  assert text.count('xla.sdy.sharding_group_id="3 : i64"') == 2
  assert text.count('custom_call_has_side_effect=true') == 2


def test_no_group_of_shapes_that_differ_by_now():
  module = modules.module_of(f'''
    p = f32[8] parameter(0)
    q = f32[6] parameter(1)
    a = f32[8] custom-call(p), {_ALIKE}
    ROOT b = f32[6] custom-call(q), {_ALIKE}''')
  shard_groups.restore_groups(module, shard_groups.extract_groups(module))
  assert 'custom-call' not in modules.printed(module)


def test_priorities_count_in_a_scan_and_its_gradient():
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8), (8,), ('d',))
  specs = []
  for of_carry in (0, 1):
    carry = torch.randn(16, 32)
    weight = torch.randn(2, 32, 32) / 6
    here = carry.clone().requires_grad_()
    for w in weight:
      carry = torch.tanh(carry @ w)
    there = here.detach().to('xla').requires_grad_()
    weights = weight.to('xla').requires_grad_()
    xs.mark_sharding(there, mesh, ('d', None), priority=(of_carry, None))
    xs.mark_sharding(
        weights, mesh, (None, None, 'd'), priority=(None, None, 1 - of_carry))
    torch_xla.sync()
    with torch_xla.shardy.record() as programs:
      y, _ = scan(lambda c, w: (torch.tanh(c @ w), w.sum()), there, weights)
      y.sum().backward()
      torch_xla.sync()
    assert {p.partitioner for p in programs} == {Partitioner.SHARDY}
    specs.append(torch_xla._XLAC._get_xla_sharding_spec(y))
    torch.testing.assert_close(y.cpu(), carry)
    step = here
    for w in weight:
      step = torch.tanh(step @ w)
    step.sum().backward()
    torch.testing.assert_close(there.grad.cpu(), here.grad)
  assert specs[0].startswith('{devices=[8,1]')
  assert specs[1].startswith('{devices=[1,8]')
