"""Steps of a model all of whose weights are annotated: lazy, or compiled.

Reports the step, what of it is spent in the hooks that bind the annotations,
and, with the mode on, what the compiles took.
"""

import time

import numpy as np
from sections import Sections, arguments, median_ms, report
import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy import binding

_WIDTH, _BATCH = 128, 64


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
  hooks = Sections()
  for name in ('before_sync', 'after_sync'):
    hooks.watch(binding, name, 'hooks')
  hooks.watch(binding.TracedAnnotations, 'changed', 'hooks')

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
  hooks.seconds.clear()
  cpu = time.process_time()
  seconds = [step() for _ in range(asked['steps'])]
  cpu = time.process_time() - cpu
  steps = asked['steps']
  programs = torch_xla.shardy.programs()
  report(
      version=torch_xla.__version__,
      ms=median_ms(seconds),
      cpu_ms=1e3 * cpu / steps,
      hooks_ms=hooks.milliseconds(steps).get('hooks', 0.0),
      compile_s=sum(p.seconds for p in programs),
      partitioners=sorted({p.partitioner.value for p in programs}))


if __name__ == '__main__':
  main()
