"""The cost of reading a sharded tensor (pytorch/xla#9751)."""

import time

import numpy as np
from sections import arguments, median_ms, report
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr


def main() -> None:
  settings = arguments()
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8), (2, 4), ('data', 'model'))
  tensor = torch.randn(settings['size'], settings['size']).to('xla')
  xs.mark_sharding(tensor, mesh, ('data', 'model'))
  torch_xla.sync(wait=True)
  for _ in range(settings['warm_up']):
    tensor.cpu()
  seconds, cpu = [], time.process_time()
  for _ in range(settings['steps']):
    start = time.perf_counter()
    tensor.cpu()
    seconds.append(time.perf_counter() - start)
  cpu = time.process_time() - cpu
  report(
      version=torch_xla.__version__,
      ms=median_ms(seconds),
      cpu_ms=1e3 * cpu / settings['steps'])


if __name__ == '__main__':
  main()
