"""A training step of a Llama, its projections split over a batch and a model.

The shapes are those of Llama-3 8B, each divided by `--scale`. Weights are split
over both axes, as with fully sharded data parallelism and tensor parallelism,
or over the model alone where sequences are split over it, too.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

WIDTH, HIDDEN, HEADS, KEYS, VOCABULARY = 4096, 14336, 32, 8, 128256
# By their last names; split over the model along what they give.
_COLUMNS = ('query', 'key', 'value', 'gate', 'up', 'head')


class Block(torch.nn.Module):

  def __init__(self, width: int, hidden: int):
    super().__init__()
    self.size = width // HEADS
    linear = lambda a, b: torch.nn.Linear(a, b, bias=False)
    self.norm1, self.norm2 = torch.nn.RMSNorm(width), torch.nn.RMSNorm(width)
    self.query, self.out = linear(width, width), linear(width, width)
    self.key = linear(width, KEYS * self.size)
    self.value = linear(width, KEYS * self.size)
    self.gate, self.up = linear(width, hidden), linear(width, hidden)
    self.down = linear(hidden, width)

  def forward(self, x: torch.Tensor) -> torch.Tensor:
    batch, length, _ = x.shape
    normed = self.norm1(x)

    def heads(projection: torch.nn.Module, count: int) -> torch.Tensor:
      split = projection(normed).view(batch, length, count, self.size)
      return split.transpose(1, 2).repeat_interleave(HEADS // count, 1)

    q = heads(self.query, HEADS)
    k, v = heads(self.key, KEYS), heads(self.value, KEYS)
    odds = (q @ k.transpose(-1, -2) / self.size**0.5).softmax(-1)
    x = x + self.out((odds @ v).transpose(1, 2).reshape(x.shape))
    normed = self.norm2(x)
    return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


class Model(torch.nn.Module):

  def __init__(self, layers: int, scale: int):
    super().__init__()
    width, vocabulary = WIDTH // scale, VOCABULARY // scale
    self.table = torch.nn.Embedding(vocabulary, width)
    self.blocks = torch.nn.Sequential(
        *(Block(width, HIDDEN // scale) for _ in range(layers)))
    self.norm = torch.nn.RMSNorm(width)
    self.head = torch.nn.Linear(width, vocabulary, bias=False)

  def forward(self, tokens: torch.Tensor) -> torch.Tensor:
    return self.head(self.norm(self.blocks(self.table(tokens))))


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('--layers', type=int, default=2)
  parser.add_argument('--scale', type=int, default=32)
  parser.add_argument('--length', type=int, default=32)
  parser.add_argument('--sequences', type=int, default=8, help='of the batch')
  parser.add_argument(
      '--sequence-parallel',
      action='store_true',
      help='split sequences over the model axis')
  options = parser.parse_args()
  torch.manual_seed(0)
  xr.use_spmd()
  count = xr.global_runtime_device_count()
  mesh = xs.Mesh(np.arange(count), (count // 4, 4), ('data', 'model'))
  model = Model(options.layers, options.scale).to('xla')
  data = None if options.sequence_parallel else 'data'
  for name, weight in model.named_parameters():
    if weight.dim() == 2:
      is_column = name.split('.')[-2] in _COLUMNS
      xs.mark_sharding(weight, mesh, ('model', data) if is_column else
                       (data, 'model'))
  tokens = torch.randint(0, VOCABULARY // options.scale,
                         (options.sequences, options.length)).to('xla')
  xs.mark_sharding(tokens, mesh,
                   ('data', 'model' if options.sequence_parallel else None))
  torch_xla.shardy.name_tensors({'tokens': tokens})
  torch_xla.sync()
  logits = model(tokens)
  F.cross_entropy(logits.flatten(0, 1), tokens.roll(-1, 1).flatten()).backward()
  torch_xla.sync()


if __name__ == '__main__':
  main()
