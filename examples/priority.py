"""Trains one model under two priority assignments and compares them.

An embedding table is split over its features, a batch of tokens over its
sequences, and both over the same mesh axis: the looked-up rows can follow one
of them only. Priorities say which. Neither assignment changes how the table or
the tokens are stored, nor the numbers; they change what Shardy moves between
the devices.
"""

import argparse
import dataclasses
import os
import statistics
import time

# The runtime reads these when torch_xla is imported.
os.environ.setdefault('PJRT_DEVICE', 'CPU')
os.environ.setdefault('CPU_NUM_DEVICES', '8')
os.environ.setdefault('XLA_USE_SHARDY', '1')

import numpy as np
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy.compile.record import columns, ProgramRecord
from torch_xla.shardy.sharding.text import parse_sharding

VOCABULARY, CLASSES, LENGTH = 4096, 16, 32
# Sizes for each device.
FEATURES, SEQUENCES = 16, 8


class Model(torch.nn.Module):
  """Classifies sequences of tokens: [batch, length] -> [batch, classes]."""

  def __init__(self, devices: int):
    super().__init__()
    self.table = torch.nn.Embedding(VOCABULARY, FEATURES * devices)
    self.head = torch.nn.Linear(FEATURES * devices, CLASSES)

  def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rows = self.table(tokens)
    return self.head(F.gelu(rows).mean(1)), rows


@dataclasses.dataclass(frozen=True)
class Assignment:
  """Which priority the table's features and the batch's sequences get."""
  title: str
  table: int
  tokens: int


@dataclasses.dataclass(frozen=True)
class Outcome:
  step: ProgramRecord
  rows: str
  milliseconds: float
  losses: tuple[float, ...]


ASSIGNMENTS = (
    Assignment('table first', table=0, tokens=1),
    Assignment('tokens first', table=1, tokens=0),
)


def train(assignment: Assignment, mesh: xs.Mesh, steps: int) -> Outcome:
  torch.manual_seed(0)
  generator = torch.Generator().manual_seed(0)
  devices = mesh.size()
  model = Model(devices).to('xla')
  torch_xla.shardy.name_tensors(dict(model.named_parameters()))
  xs.mark_sharding(
      model.table.weight,
      mesh, (None, 'data'),
      priority=(None, assignment.table))
  optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
  losses, seconds = [], []
  with torch_xla.shardy.record() as programs:
    for _ in range(steps):
      batch = torch.randint(
          VOCABULARY, (SEQUENCES * devices, LENGTH), generator=generator)
      labels = (batch[:, 0] % CLASSES).to('xla')
      tokens = batch.to('xla')
      torch_xla.shardy.name_tensors({'tokens': tokens})
      xs.mark_sharding(
          tokens, mesh, ('data', None), priority=(assignment.tokens, None))
      start = time.perf_counter()
      optimizer.zero_grad()
      scores, rows = model(tokens)
      loss = F.cross_entropy(scores, labels)
      loss.backward()
      optimizer.step()
      torch_xla.sync()
      losses.append(loss.item())
      seconds.append(time.perf_counter() - start)
  step = [p for p in programs if p.tensors][-1]
  placement = torch_xla._XLAC._get_xla_sharding_spec(rows)
  return Outcome(step, str(parse_sharding(placement).canonical()),
                 statistics.median(seconds) * 1e3, tuple(losses))


def main() -> None:
  parser = argparse.ArgumentParser(
      description=__doc__.split('\n', maxsplit=1)[0])
  parser.add_argument('--steps', type=int, default=30, help='training steps')
  steps = parser.parse_args().steps
  if torch_xla.shardy.current_mode() is not torch_xla.shardy.Mode.SHARDY:
    parser.error('priorities need Shardy: set XLA_USE_SHARDY=1')

  xr.use_spmd()
  devices = xr.global_runtime_device_count()
  mesh = xs.Mesh(np.arange(devices), (devices,), ('data',))
  outcomes = []
  for assignment in ASSIGNMENTS:
    print(f'training with priorities: {assignment.title} ...', flush=True)
    outcomes.append(train(assignment, mesh, steps))

  def line(title: str, cells) -> tuple[str, ...]:
    return (title, *map(str, cells))

  rows = [line('', (a.title for a in ASSIGNMENTS))]
  for tensor in ('table.weight', 'tokens'):
    records = [
        next(t for t in o.step.tensors if t.name == tensor) for o in outcomes
    ]
    rows.append(line(f'{tensor} asked for', (r.spec for r in records)))
    rows.append(line('  priority', (r.priority for r in records)))
    rows.append(line('  on a device', (r.local_shape for r in records)))
  rows.append(line('looked-up rows', (o.rows for o in outcomes)))
  kinds = sorted({c.kind for o in outcomes for c in o.step.collectives or ()})
  for kind in kinds:
    rows.append(
        line(kind, (next((f'{c.count} ({c.nbytes:,} bytes)'
                          for c in o.step.collectives or ()
                          if c.kind == kind), '-')
                    for o in outcomes)))
  rows.append(
      line('bytes moved per step and device',
           (f'{sum(c.nbytes for c in o.step.collectives or ()):,}'
            for o in outcomes)))
  rows.append(
      line('time per step (median)',
           (f'{o.milliseconds:.1f} ms' for o in outcomes)))
  rows.append(
      line('loss',
           (f'{o.losses[0]:.4f} -> {o.losses[-1]:.4f}' for o in outcomes)))
  print('\n'.join(columns(rows)))
  for outcome in outcomes:
    print(f'\n{outcome.step}')
  if not np.allclose(outcomes[0].losses, outcomes[1].losses, atol=1e-4):
    raise SystemExit('the two assignments gave different losses')


if __name__ == '__main__':
  main()
