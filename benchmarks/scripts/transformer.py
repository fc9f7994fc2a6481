"""Trains a transformer whose batch and model are split over all devices.

A script as users write them: `python -m benchmarks.aot_cost` runs it ahead of
time. Two steps; weights of the projections are split over the model axis, and
each device of the data axis takes the same number of sequences.
"""

import argparse

import numpy as np
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr


class Block(torch.nn.Module):

  def __init__(self, width: int, heads: int):
    super().__init__()
    self.heads = heads
    self.norm1 = torch.nn.LayerNorm(width)
    self.qkv = torch.nn.Linear(width, 3 * width)
    self.out = torch.nn.Linear(width, width)
    self.norm2 = torch.nn.LayerNorm(width)
    self.up = torch.nn.Linear(width, 4 * width)
    self.down = torch.nn.Linear(4 * width, width)

  def forward(self, x: torch.Tensor) -> torch.Tensor:
    batch, length, width = x.shape
    q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads,
                                           -1).permute(2, 0, 3, 1, 4)
    scores = (q @ k.transpose(-1, -2)) / (width / self.heads)**0.5
    x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape))
    return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(torch.nn.Module):

  def __init__(self, layers: int, width: int, heads: int, vocabulary: int):
    super().__init__()
    self.token = torch.nn.Embedding(vocabulary, width)
    self.blocks = torch.nn.ModuleList(
        Block(width, heads) for _ in range(layers))
    self.head = torch.nn.Linear(width, vocabulary, bias=False)

  def forward(self, tokens: torch.Tensor) -> torch.Tensor:
    x = self.token(tokens)
    for block in self.blocks:
      x = block(x)
    return self.head(x)


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('--layers', type=int, default=24)
  parser.add_argument('--width', type=int, default=512)
  parser.add_argument('--heads', type=int, default=16)
  parser.add_argument('--vocabulary', type=int, default=4096)
  parser.add_argument('--length', type=int, default=128)
  parser.add_argument('--sequences', type=int, default=4, help='per data shard')
  options = parser.parse_args()
  xr.use_spmd()
  count = xr.global_runtime_device_count()
  split = min(8, count)
  mesh = xs.Mesh(np.arange(count), (count // split, split), ('data', 'model'))
  model = Model(options.layers, options.width, options.heads,
                options.vocabulary).to('xla')
  xs.mark_sharding(model.token.weight, mesh, (None, 'model'))
  xs.mark_sharding(model.head.weight, mesh, ('model', None))
  for block in model.blocks:
    xs.mark_sharding(block.qkv.weight, mesh, ('model', None))
    xs.mark_sharding(block.out.weight, mesh, (None, 'model'))
    xs.mark_sharding(block.up.weight, mesh, ('model', None))
    xs.mark_sharding(block.down.weight, mesh, (None, 'model'))
  optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
  sequences = options.sequences * mesh.mesh_shape[0]
  for _ in range(2):
    tokens = torch.randint(0, options.vocabulary,
                           (sequences, options.length)).to('xla')
    xs.mark_sharding(tokens, mesh, ('data', None))
    optimizer.zero_grad()
    logits = model(tokens)
    F.cross_entropy(logits.flatten(0, 1),
                    tokens.roll(-1, 1).flatten()).backward()
    optimizer.step()
    torch_xla.sync()


if __name__ == '__main__':
  main()
