"""A training step of examples/train_sharded.py's model."""

import statistics
import time

import numpy as np
from sections import arguments, median_ms, report, Sections
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
import train_sharded as demo


def main() -> None:
  settings = arguments()
  xr.use_spmd()
  torch.manual_seed(0)
  generator = torch.Generator().manual_seed(0)
  device = torch_xla.device()
  mesh = xs.Mesh(np.arange(8), (2, 4), ('data', 'model'))
  model = demo.Model(settings['blocks']).to(device)
  demo.annotate(model, mesh)
  optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
  losses = []

  def step() -> Sections:
    sequences = demo.batch_of_sequences(generator)
    sections = Sections()
    with sections.section('input transfer'):
      sequences = sequences.to(device)
      tokens, targets = sequences[:, :-1].clone(), sequences[:, 1:].clone()
      xs.mark_sharding(tokens, mesh, ('data', None))
      xs.mark_sharding(targets, mesh, ('data', None))
    with sections.section('tracing: Python'):
      optimizer.zero_grad()
      loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
      loss.backward()
      optimizer.step()
    with sections.section('sync: graph, dispatch'):
      torch_xla.sync()
    with sections.section('execution (wait)'):
      losses.append(loss.item())
    return sections

  for _ in range(settings['warm_up']):
    step()
  cpu = time.process_time()
  steps = [step().seconds for _ in range(settings['steps'])]
  cpu = time.process_time() - cpu
  report(
      version=torch_xla.__version__,
      steps=settings['steps'],
      ms=median_ms([sum(s.values()) for s in steps]),
      cpu_ms=1e3 * cpu / settings['steps'],
      losses=[losses[0], losses[-1]],
      breakdown={
          name: 1e3 * statistics.median(s[name] for s in steps)
          for name in steps[0]
      })


if __name__ == '__main__':
  main()
