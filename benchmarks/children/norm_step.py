"""A training step of examples/train_sharded.py's model, data parallel.

Each device has some sequences of the batch and all weights, so nothing but the
normalisations stands between an activation and its split by the batch.
"""

import time

import norms_as_traced
import numpy as np
from sections import arguments, median_ms, report
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy.compile.record import ProgramRecord
import train_sharded as demo


def _bytes_moved(program: ProgramRecord) -> int:
  """The bytes that a program's collectives move, per device."""
  return sum(c.nbytes for c in program.collectives)


def main() -> None:
  settings = arguments()
  for name in ('LENGTH', 'WIDTH', 'BATCH'):
    setattr(demo, name, settings[name.lower()])
  norms_as_traced.register_if_asked()
  xr.use_spmd()
  torch.manual_seed(0)
  generator = torch.Generator().manual_seed(0)
  device = torch_xla.device()
  mesh = xs.Mesh(np.arange(8), (8,), ('data',))
  model = demo.Model(settings['blocks']).to(device)
  optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
  losses = []

  def step() -> float:
    sequences = demo.batch_of_sequences(generator).to(device)
    tokens, targets = sequences[:, :-1].clone(), sequences[:, 1:].clone()
    xs.mark_sharding(tokens, mesh, ('data', None))
    xs.mark_sharding(targets, mesh, ('data', None))
    start = time.perf_counter()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    losses.append(loss.item())
    return time.perf_counter() - start

  for _ in range(settings['warm_up']):
    step()
  cpu = time.process_time()
  seconds = [step() for _ in range(settings['steps'])]
  cpu = time.process_time() - cpu
  trained = max(torch_xla.shardy.programs(), key=_bytes_moved)
  report(
      version=torch_xla.__version__,
      ms=median_ms(seconds),
      cpu_ms=1e3 * cpu / settings['steps'],
      partitioner=trained.partitioner.value,
      moved=_bytes_moved(trained),
      losses=[losses[0], losses[-1]])


if __name__ == '__main__':
  main()
