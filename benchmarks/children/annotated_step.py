"""Steps of a model all of whose weights are annotated: lazy, or compiled.

Reports the step and, with the mode on, what the compiles took and how much
longer a step is than one without bindings, taken in turn in this process.
"""

import contextlib
import time
from typing import Callable, Tuple
from unittest import mock

import numpy as np
from sections import arguments, median_ms, report
import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy import binding, switch
from torch_xla.shardy.mode import Mode

_WIDTH, _BATCH = 128, 64

_HOOKS = (
    (binding, 'annotate', lambda place, t, sharding, *_: place(t, sharding)),
    (binding, 'before_sync', lambda: None),
    (binding, 'after_sync', lambda: None),
    (binding.TracedAnnotations, 'changed', lambda *_: False),
)


def _added_ms(step: Callable[[], float], syncs: bool,
              pairs: int) -> Tuple[float, float]:
  """How much longer a step is with bindings; A B, B A, A B, ... in turn.

  Returns:
    Medians over the pairs: by the clock, and CPU time of the thread that runs
    the model, which other load and the devices' own threads do not move.
  """

  def measure(bound: bool) -> Tuple[float, float]:
    if syncs and not bound:
      for one in binding._held:
        one.inner = None  # Without bindings, nothing would hold it.
    # Both put something in place, as what runs before a step changes its time.
    with contextlib.ExitStack() as patched:
      for owner, name, plain in _HOOKS:
        hook = getattr(owner, name) if bound else plain
        patched.enter_context(mock.patch.object(owner, name, hook))
      cpu = time.thread_time()
      seconds = step()
      cpu = time.thread_time() - cpu
    if syncs and not bound:
      binding._syncing = list(binding._held)
      binding.after_sync()
    return seconds, cpu

  for bound in (False, True) * 3:
    measure(bound)
  differences = []
  for number in range(pairs):
    first = number % 2 == 0
    measured = {bound: measure(bound) for bound in (first, not first)}
    differences.append(
        [ours - plain for ours, plain in zip(measured[True], measured[False])])
  wall, cpu = map(median_ms, zip(*differences))
  return wall, cpu


def main() -> None:
  asked = arguments()
  xr.use_spmd()
  torch.manual_seed(0)
  mesh = xs.Mesh(np.arange(8), (2, 4), ('data', 'model'))
  layers = [
      torch.nn.Linear(_WIDTH, _WIDTH, bias=False)
      for _ in range(asked['layers'])
  ]
  model = torch.nn.Sequential(*layers).to('xla')
  for i, layer in enumerate(model):
    spec = ('model', None) if i % 2 == 0 else (None, 'model')
    priority = tuple(None if axis is None else 1 for axis in spec)
    said = {'priority': priority} if asked['priority'] else {}
    xs.mark_sharding(layer.weight, mesh, spec, **said)
  optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
  forward = model
  if asked['way'] == 'dynamo':
    forward = torch.compile(model, backend='openxla')
    model.requires_grad_(False)
  host = torch.randn(_BATCH, _WIDTH)

  def step() -> float:
    start = time.perf_counter()
    x = host.to('xla')
    xs.mark_sharding(x, mesh, ('data', None))
    y = forward(x)
    if asked['way'] == 'lazy':
      optimizer.zero_grad()
      y.square().mean().backward()
      optimizer.step()
      torch_xla.sync()
    xm.wait_device_ops()
    return time.perf_counter() - start

  for _ in range(asked['warm_up']):
    step()
  added = 0.0, 0.0
  if asked.get('pairs') and switch.current_mode() is Mode.SHARDY:
    added = _added_ms(step, asked['way'] == 'lazy', asked['pairs'])
  cpu = time.process_time()
  seconds = [step() for _ in range(asked['steps'])]
  cpu = time.process_time() - cpu
  steps = asked['steps']
  programs = torch_xla.shardy.programs()
  report(
      version=torch_xla.__version__,
      ms=median_ms(seconds),
      cpu_ms=1e3 * cpu / steps,
      added_ms=added[0],
      added_cpu_ms=added[1],
      compile_s=sum(p.seconds for p in programs),
      partitioners=sorted({p.partitioner.value for p in programs}))


if __name__ == '__main__':
  main()
