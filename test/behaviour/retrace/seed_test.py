"""A compiled graph draws its random numbers behind what is pending."""

import pytest
import torch
import torch_xla
import torch_xla.core.xla_model as xm

ENVIRONMENT = {'PJRT_DEVICE': 'CPU', 'CPU_NUM_DEVICES': '8'}
pytestmark = pytest.mark.usefixtures('spmd')


def noise(x: torch.Tensor) -> torch.Tensor:
  return x + torch.rand_like(x)


def test_other_numbers_than_what_is_pending():
  compiled = torch.compile(noise, backend='openxla')
  x = torch.zeros(8, 8).to('xla')
  torch_xla.sync()
  for _ in range(2):
    drawn = [noise(x), compiled(x), noise(x), compiled(x)]
    assert len({tuple(t.cpu().flatten().tolist()) for t in drawn}) == 4


def test_traced_or_not_and_compiled_or_not_a_seed_gives_the_same():
  compiled = torch.compile(noise, backend='openxla')
  x = torch.zeros(8, 8).to('xla')
  drawn = []
  for run in (compiled, compiled, noise):
    xm.set_rng_state(5)
    pending = noise(x)
    drawn.append((run(x).cpu(), pending.cpu()))
  for actual in drawn[1:]:
    for a, e in zip(actual, drawn[0], strict=True):
      torch.testing.assert_close(a, e)
