"""Dropout within a compiled function scales what it keeps by 1 / (1 - p)."""

import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs

ENVIRONMENT = {'PJRT_DEVICE': 'CPU', 'CPU_NUM_DEVICES': '8'}


@pytest.mark.parametrize('p', [0.1, 0.9])
def test_compiled_dropout(mesh, p):
  f = torch.compile(
      lambda x: torch.nn.functional.dropout(x, p), backend='openxla')
  x = torch.ones(32, 32).to('xla')
  xs.mark_sharding(x, mesh, ('y', None))
  x.requires_grad_()
  masks = []
  for _ in range(2):
    x.grad = None
    y = f(x)
    y.sum().backward()
    torch_xla.sync()
    # A mask of the step, which the backward pass has, too.
    torch.testing.assert_close(x.grad.cpu(), y.detach().cpu())
    assert y.detach().cpu().unique().tolist() == pytest.approx([0, 1 / (1 - p)])
    masks.append(y.detach().cpu() > 0)
  assert not torch.equal(*masks)


def test_mask_is_bool_in_memory_and_none_is_kept_of_all():
  x = torch.ones(8, 8).to('xla')
  _, mask = torch.native_dropout(x, 0.1, True)
  assert mask.float().unique().tolist()[-1] == 1
  assert torch.native_dropout(x, 1., True)[0].cpu().unique().tolist() == [0]
