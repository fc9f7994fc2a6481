"""Steps of a model all of whose weights are annotated: lazy, or compiled.

Reports the step and, with the mode on, what the compiles took and how much
longer a step is than one without bindings, taken in turn in this process.
"""

import contextlib
import time
import types
from typing import Callable, Tuple
from unittest import mock

import numpy as np
from sections import arguments, median_ms, report
import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy.bind import binder
from torch_xla.shardy.bind.binding import TracedAnnotations
from torch_xla.shardy.mode import current_mode, Mode

Forward = Callable[[torch.Tensor], torch.Tensor]
_WIDTH, _BATCH = 128, 64
_VARIANTS = 4

_HOOKS = (
    (binder, 'annotate', lambda place, t, sharding, *_: place(t, sharding)),
    (binder, 'sync', contextlib.nullcontext),
    (binder, 'of_graph', lambda *_: None),
    (TracedAnnotations, 'changed', lambda *_: False),
)


def _variant(model: torch.nn.Module, way: str, number: int = 0) -> Forward:
  """The model; each `number` is a program of its own."""

  def forward(x: torch.Tensor) -> torch.Tensor:
    y = model(x)
    for _ in range(number):
      y = -y
    return y

  if way == 'lazy':
    return forward
  # torch.compile knows functions by their code object: this one is traced anew.
  code = forward.__code__.replace()
  return torch.compile(
      types.FunctionType(code, globals(), closure=forward.__closure__),
      backend='openxla')


def _added_ms(step: Callable[[Forward], float], model: torch.nn.Module,
              way: str, pairs: int) -> Tuple[float, float]:
  """How much longer a step is with bindings; A B, B A, A B, ... in turn.

  What a compiled graph was traced with, it keeps. Two compilations of one graph
  differ by more than bindings cost, so several of each kind take turns.

  Returns:
    Medians over the pairs: by the clock, and CPU time of the thread that runs
    the model, which other load and the devices' own threads do not move.
  """
  count = min(_VARIANTS, pairs)
  variants = {
      bound: [_variant(model, way, number) for number in range(count)]
      for bound in (True, False)
  }

  def measure(bound: bool, number: int) -> Tuple[float, float]:
    # Both put something in place, as what runs before a step changes its time.
    with contextlib.ExitStack() as patched:
      for owner, name, plain in _HOOKS:
        hook = getattr(owner, name) if bound else plain
        patched.enter_context(mock.patch.object(owner, name, hook))
      # The second counts: what one leaves to free, the next one pays for.
      for _ in range(2):
        cpu = time.thread_time()
        seconds = step(variants[bound][number % count])
        cpu = time.thread_time() - cpu
    if not bound:
      torch_xla.sync()  # The binder sees what became of the weights.
    return seconds, cpu

  for number in range(2 * count):
    for bound in (False, True):
      measure(bound, number)
  differences = []
  for number in range(pairs):
    first = number % 2 == 0
    measured = {
        bound: measure(bound, number // 2) for bound in (first, not first)
    }
    differences.append(
        [ours - plain for ours, plain in zip(measured[True], measured[False])])
  wall, cpu = map(median_ms, zip(*differences))
  return wall, cpu


def main() -> None:
  settings = arguments()
  xr.use_spmd()
  torch.manual_seed(0)
  mesh = xs.Mesh(np.arange(8), (2, 4), ('data', 'model'))
  layers = [
      torch.nn.Linear(_WIDTH, _WIDTH, bias=False)
      for _ in range(settings['layers'])
  ]
  model = torch.nn.Sequential(*layers).to('xla')
  for i, layer in enumerate(model):
    spec = ('model', None) if i % 2 == 0 else (None, 'model')
    priority = tuple(None if axis is None else 1 for axis in spec)
    xs.mark_sharding(layer.weight, mesh, spec, priority=priority)
  optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
  if settings['way'] == 'dynamo':
    model.requires_grad_(False)
  plain = _variant(model, settings['way'])
  host = torch.randn(_BATCH, _WIDTH)

  def step(forward: Forward = plain) -> float:
    start = time.perf_counter()
    x = host.to('xla')
    xs.mark_sharding(x, mesh, ('data', None))
    y = forward(x)
    if settings['way'] == 'lazy':
      optimizer.zero_grad()
      y.square().mean().backward()
      optimizer.step()
      torch_xla.sync()
    xm.wait_device_ops()
    return time.perf_counter() - start

  for _ in range(settings['warm_up']):
    step()
  cpu = time.process_time()
  seconds = [step() for _ in range(settings['steps'])]
  cpu = time.process_time() - cpu
  added = 0.0, 0.0
  if settings.get('pairs') and current_mode() is Mode.SHARDY:
    added = _added_ms(step, model, settings['way'], settings['pairs'])
  steps = settings['steps']
  programs = torch_xla.shardy.programs()
  report(
      version=torch_xla.__version__,
      ms=median_ms(seconds),
      cpu_ms=1e3 * cpu / steps,
      added_ms=added[0],
      added_cpu_ms=added[1],
      partitioners=sorted({p.partitioner.value for p in programs}))


if __name__ == '__main__':
  main()
