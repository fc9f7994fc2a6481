"""Upstream's SPMD as users have it: models trained beside torch on the CPU."""

from __future__ import annotations

import copy
import functools

import numpy as np

from ..shared.mode import Mode
from ..case import Case, expect, Needs, Tier
from ..context import Context
from ..torch_modules import torch, torch_xla, xs
from ..torch_session import DATA, MODEL, TorchSession

_STEPS = 4
# Allows for losses in float32 after some steps, with products of bfloat16.
_TOLERANCE = 2e-2


def _model() -> torch.nn.Module:
  torch.manual_seed(3)
  return torch.nn.Sequential(
      torch.nn.Linear(32, 64), torch.nn.LayerNorm(64), torch.nn.GELU(),
      torch.nn.Linear(64, 32), torch.nn.Linear(32, 8))


def _batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
  generator = torch.Generator().manual_seed(5)
  return [(torch.randn(16, 32, generator=generator),
           torch.randint(8, (16,), generator=generator)) for _ in range(_STEPS)]


def _losses(model, batches, end_step) -> list[torch.Tensor]:
  optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
  losses = []
  for inputs, labels in batches:
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    end_step()
    losses.append(loss)
  return losses


def _train(context: Context, part: str) -> str:
  session = context.torch()
  mesh = session.grid()
  plain = _model()
  cpu_losses = [
      float(loss.detach())
      for loss in _losses(copy.deepcopy(plain), _batches(), lambda: None)
  ]
  model = plain.to(session.device)
  if part == 'fsdp':
    from torch_xla.experimental.spmd_fully_sharded_data_parallel import (
        SpmdFullyShardedDataParallel)
    mesh = session.mesh((session.count, 1), ('fsdp', MODEL))
    xs.set_global_mesh(mesh)
    model = SpmdFullyShardedDataParallel(
        model,
        mesh=mesh,
        shard_output=lambda output, mesh: xs.mark_sharding(
            output, mesh, ('fsdp', None)))
  elif part != 'replicated':
    for module in model:
      if isinstance(module, torch.nn.Linear):
        xs.mark_sharding(module.weight, mesh, (MODEL, None))
  batches = []
  for inputs, labels in _batches():
    on_device = session.to_device(inputs)
    if part != 'replicated':
      xs.mark_sharding(on_device, mesh,
                       ('fsdp' if part == 'fsdp' else DATA, None))
    batches.append((on_device, session.to_device(labels)))
  torch_xla.sync(wait=True)
  run = model
  if part == 'torch.compile':
    run = torch.compile(model, backend='openxla')
  losses = [
      loss.item()
      for loss in _losses(run, batches, lambda: torch_xla.sync(wait=True))
  ]
  # A NaN among the losses is the largest difference, where `max` drops it.
  worst = float(np.abs(np.subtract(losses, cpu_losses)).max())
  expect(
      worst <= _TOLERANCE,
      f'losses {_listed(losses)} differ from those of the CPU, '
      f'{_listed(cpu_losses)}, by {worst:.3g}; {_TOLERANCE} is allowed')
  return f'{_STEPS} steps, losses within {worst:.2g} of the CPU\'s'


def _listed(values: list[float]) -> str:
  return '[' + ', '.join(f'{v:.4f}' for v in values) + ']'


def _specs(context: Context, part: str) -> str:
  """A tensor's sharding as torch_xla reports it, and clearing it."""
  session: TorchSession = context.torch()
  mesh = session.grid()
  tensor = session.to_device(torch.zeros(8, 16))
  if part == 'annotated':
    xs.mark_sharding(tensor, mesh, (DATA, MODEL))
    spec = torch_xla._XLAC._get_xla_sharding_spec(tensor)
    data, model = session.grid_shape
    expect(
        spec.startswith(f'{{devices=[{data},{model}]'),
        f'a tensor split {data} x {model} says {spec!r}')
  else:
    xs.mark_sharding(tensor, mesh, (DATA, MODEL))
    xs.clear_sharding(tensor)
    spec = torch_xla._XLAC._get_xla_sharding_spec(tensor)
    expect(not spec, f'a tensor without a sharding says {spec!r}')
    torch_xla.sync(wait=True)
    expect(not (tensor + 1).cpu().sub(1).any(), 'its values have changed')
  return spec or 'none'


_case = functools.partial(Case, devices=2, needs=Needs.TORCH_XLA)
_PARTS = ('replicated', 'sharded', 'fsdp', 'torch.compile')
_WRONG = 'a model trains otherwise than on the CPU'
CASES: tuple[Case, ...] = (
    _case('training.losses', _WRONG, _train, _PARTS, seconds=180),
    _case(
        'training.losses_gspmd',
        _WRONG,
        _train,
        _PARTS,
        Mode.V2,
        seconds=180,
        part_tiers=dict.fromkeys(('replicated', 'torch.compile'), Tier.NIGHTLY),
        needs=Needs.MODES),
    _case('training.specs', 'tools read shardings that are not there', _specs,
          ('annotated', 'cleared')),
)
