"""A lazy training loop as users write them, of a small MLP on all devices."""

import argparse

import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

WIDTH = 256


def main() -> None:
  parser = argparse.ArgumentParser()
  parser.add_argument('--steps', type=int, default=3)
  parser.add_argument('--rows', type=int, default=2)
  parser.add_argument('--width', type=int, default=WIDTH)
  parser.add_argument('--hidden', type=int)
  parser.add_argument('--batch', type=int, default=64)
  parser.add_argument('--read', action='store_true')
  options = parser.parse_args()
  hidden = options.hidden or 4 * options.width
  xr.use_spmd()
  count = xr.global_runtime_device_count()
  shape = options.rows, count // options.rows
  mesh = xs.Mesh(np.arange(count), shape, ('data', 'model'))
  model = torch.nn.Sequential(
      torch.nn.Linear(options.width, hidden), torch.nn.GELU(),
      torch.nn.Linear(hidden, options.width)).to('xla')
  xs.mark_sharding(model[0].weight, mesh, ('model', None))
  xs.mark_sharding(model[2].weight, mesh, (None, 'model'))
  optimizer = torch.optim.AdamW(model.parameters())
  for step in range(options.steps):
    batch = torch.randn(options.batch, options.width).to('xla')
    xs.mark_sharding(batch, mesh, ('data', None))
    optimizer.zero_grad()
    loss = (model(batch) - batch).square().mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    torch_xla.sync()
    if options.read:
      print('step', step, 'loss', loss.item())
  print('trained on', count, xr.device_type(), 'devices, process',
        xr.process_index(), 'of', xr.process_count())


if __name__ == '__main__':
  main()
