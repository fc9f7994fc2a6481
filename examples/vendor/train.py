"""Trains a small sharded model on whatever device and mode the wheel chooses."""

import numpy as np
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

STEPS = 30
FEATURES, HIDDEN, BATCH = 16, 64, 32


def main() -> None:
  """Prints where and how it ran, and the loss before and after."""
  xr.use_spmd()
  count = xr.global_runtime_device_count()
  model_axis = 2 if count % 2 == 0 else 1
  mesh = xs.Mesh(
      np.arange(count), (count // model_axis, model_axis), ('data', 'model'))
  torch.manual_seed(0)
  model = torch.nn.Sequential(
      torch.nn.Linear(FEATURES, HIDDEN), torch.nn.GELU(),
      torch.nn.Linear(HIDDEN, 1)).to('xla')
  xs.mark_sharding(model[0].weight, mesh, ('model', None))
  xs.mark_sharding(model[2].weight, mesh, (None, 'model'))
  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
  x = torch.randn(BATCH, FEATURES)
  y = x.pow(2).mean(1, keepdim=True).to('xla')
  x = x.to('xla')
  xs.mark_sharding(x, mesh, ('data', None))
  losses = []
  for _ in range(STEPS):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    losses.append(loss.item())
  mode = torch_xla.shardy.current_mode().value
  print(f'torch_xla {torch_xla.__version__}, mode {mode}, '
        f'{count} devices of {xr.device_type()}')
  for partitioner in sorted(
      {p.partitioner.value for p in torch_xla.shardy.programs()}):
    print(f'partitioned by {partitioner}')
  print(f'loss {losses[0]:.4f} -> {losses[-1]:.4f}')


if __name__ == '__main__':
  main()
