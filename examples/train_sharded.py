"""Trains a small transformer, sharded over a 2x4 mesh of CPU devices.

Prints the mesh, what is annotated, the loss, which partitioner every compiled
program used, how often programs were traced and compiled, and time per step.
"""

import argparse
import collections
import contextlib
import os
import statistics
import time
from typing import Iterator, List

# The runtime reads these when torch_xla is imported.
os.environ.setdefault('PJRT_DEVICE', 'CPU')
os.environ.setdefault('CPU_NUM_DEVICES', '8')
os.environ.setdefault('XLA_USE_SHARDY', '1')

import numpy as np
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla._dynamo import dynamo_bridge

VOCABULARY, LENGTH, WIDTH, HEADS, BATCH = 64, 32, 64, 4, 16


class Block(torch.nn.Module):
  """Attention and MLP with residuals; input and output [batch, length, width].
  """

  def __init__(self):
    super().__init__()
    self.norm1 = torch.nn.LayerNorm(WIDTH)
    self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH)
    self.out = torch.nn.Linear(WIDTH, WIDTH)
    self.norm2 = torch.nn.LayerNorm(WIDTH)
    self.up = torch.nn.Linear(WIDTH, 4 * WIDTH)
    self.down = torch.nn.Linear(4 * WIDTH, WIDTH)

  def forward(self, x: torch.Tensor) -> torch.Tensor:
    batch, length, _ = x.shape
    q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS,
                                           -1).permute(2, 0, 3, 1, 4)
    scores = q @ k.transpose(-1, -2) / q.shape[-1]**0.5
    mask = torch.ones(length, length, device=x.device).tril() == 0
    weights = scores.masked_fill(mask, -1e9).softmax(-1)
    x = x + self.out((weights @ v).transpose(1, 2).reshape(x.shape))
    return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(torch.nn.Module):
  """Token ids [batch, length] to logits [batch, length, vocabulary]."""

  def __init__(self, blocks: int = 2):
    super().__init__()
    self.token = torch.nn.Embedding(VOCABULARY, WIDTH)
    self.position = torch.nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.02)
    self.blocks = torch.nn.ModuleList(Block() for _ in range(blocks))
    self.norm = torch.nn.LayerNorm(WIDTH)
    self.head = torch.nn.Linear(WIDTH, VOCABULARY)

  def forward(self, tokens: torch.Tensor) -> torch.Tensor:
    x = self.token(tokens) + self.position
    for block in self.blocks:
      x = block(x)
    return self.head(self.norm(x))


# Parameter name ending -> partition spec on the mesh ('data', 'model').
SPECS = {
    'token.weight': ('model', None),
    'qkv.weight': ('model', None),
    'out.weight': (None, 'model'),
    'up.weight': ('model', None),
    'down.weight': (None, 'model'),
    'head.weight': ('model', None),
}


def annotate(model: torch.nn.Module, mesh: xs.Mesh) -> List[str]:
  """Marks the weights that SPECS names; one line of text for each."""
  lines = []
  for name, parameter in model.named_parameters():
    for ending, spec in SPECS.items():
      if name.endswith(ending):
        xs.mark_sharding(parameter, mesh, spec)
        lines.append(f'  {name:24} {tuple(parameter.shape)!s:12} {spec}')
  return lines


def batch_of_sequences(generator: torch.Generator) -> torch.Tensor:
  """Sequences that count up in steps of 1 to 4; [BATCH, LENGTH + 1]."""
  first = torch.randint(VOCABULARY, (BATCH, 1), generator=generator)
  step = torch.randint(1, 5, (BATCH, 1), generator=generator)
  return (first + step * torch.arange(LENGTH + 1)) % VOCABULARY


@contextlib.contextmanager
def count_traces() -> Iterator[collections.Counter]:
  """Counts how often torch.compile's bridge traces a graph."""
  counter, trace = collections.Counter(), dynamo_bridge.extract_graph_helper

  def counted(*args):
    counter['traces'] += 1
    return trace(*args)

  dynamo_bridge.extract_graph_helper = counted
  try:
    yield counter
  finally:
    dynamo_bridge.extract_graph_helper = trace


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
  parser.add_argument('--steps', type=int, default=200, help='training steps')
  steps = parser.parse_args().steps

  xr.use_spmd()
  torch.manual_seed(0)
  generator = torch.Generator().manual_seed(0)
  device = torch_xla.device()
  mesh = xs.Mesh(np.arange(8), (2, 4), ('data', 'model'))
  print(f'mode {torch_xla.shardy.current_mode().value}, '
        f'mesh {dict(mesh.shape())} of {xr.global_runtime_device_count()} '
        f'{xm.xla_device_hw(device)} devices')

  model = Model().to(device)
  print('annotated:')
  print('\n'.join(annotate(model, mesh)))
  optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
  evaluate = torch.compile(model, backend='openxla')

  def sharded_batch():
    sequences = batch_of_sequences(generator).to(device)
    tokens, targets = sequences[:, :-1].clone(), sequences[:, 1:].clone()
    xs.mark_sharding(tokens, mesh, ('data', None))
    xs.mark_sharding(targets, mesh, ('data', None))
    return tokens, targets

  seconds, losses, evaluations = [], [], 0
  with count_traces() as counter:
    for step in range(steps):
      tokens, targets = sharded_batch()
      start = time.perf_counter()
      optimizer.zero_grad()
      loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
      loss.backward()
      optimizer.step()
      torch_xla.sync()
      losses.append(loss.item())
      seconds.append(time.perf_counter() - start)
      if step % 20 == 0 or step == steps - 1:
        with torch.no_grad():
          tokens, targets = sharded_batch()
          torch_xla.sync()
          hits = evaluate(tokens).argmax(-1) == targets
          accuracy = hits.float().mean().item()
        evaluations += 1
        print(f'step {step:4}  loss {losses[-1]:.4f}  accuracy {accuracy:.3f}'
              f'  {seconds[-1] * 1e3:.0f} ms')

  print('compiled programs:')
  for program in torch_xla.shardy.programs():
    print(f'  {str(program).splitlines()[0]}')
  for note in {p.note for p in torch_xla.shardy.programs() if p.note}:
    print(f'note: {note}')
  print(f'compiles: {len(torch_xla.shardy.programs())} for {steps} steps and '
        f'{evaluations} evaluations; torch.compile traced '
        f'{counter["traces"]} time(s); lazy mode traced '
        f'{met.counter_value("MarkStep")} times')
  print(f'time per step: {statistics.median(seconds) * 1e3:.1f} ms (median)')
  print(f'loss: {losses[0]:.4f} -> {losses[-1]:.4f}')
  if not losses[-1] < losses[0]:
    raise SystemExit('the loss did not fall')


if __name__ == '__main__':
  main()
