"""The loop of pytorch/xla#9755: a compiled model, a fresh input each step."""

import statistics
import time
from typing import Callable, List

import numpy as np
from sections import arguments, median_ms, report, Sections
import torch
import torch_xla
from torch_xla._dynamo import dynamo_bridge
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from train_sharded import count_traces

_WIDTH, _BATCH = 64, 8
# Steps with the check beside as many without; 25 such pairs for 100 steps.
_BLOCK, _STEPS_A_PAIR = 10, 4
_REST = 'rest: guards, Python'
# Timed inside torch_xla, some on another thread: they overlap the sections.
_METRICS = ('TransferToDeviceTime', 'LazyTracing', 'ExecuteReplicatedTime')


def metric_ms() -> dict:
  """The total time of each metric so far."""
  data = {name: met.metric_data(name) for name in _METRICS}
  return {name: d[1] / 1e6 if d else 0.0 for name, d in data.items()}


def checks() -> int:
  """How often the bridge has asked for its inputs' shardings."""
  data = met.metric_data('_get_xla_sharding_specs')
  return data[0] if data else 0


def without_check(step: Callable[[], float], pairs: int) -> List[float]:
  """Time of steps whose check is answered from memory, over checked ones.

  In turn and in one process: between two processes, other load moves the time
  of a step by several times what the check costs.
  """
  box, ratios, specs = torch_xla._XLAC, [], []
  ask = box._get_xla_sharding_specs

  def asked(tensors):
    specs[:] = ask(tensors)
    return list(specs)

  def seconds(answer) -> float:
    box._get_xla_sharding_specs = answer
    return sum(step() for _ in range(_BLOCK))

  for number in range(pairs):
    if number % 2:
      unchecked = seconds(lambda _: list(specs))
      checked = seconds(asked)
    else:
      checked = seconds(asked)
      unchecked = seconds(lambda _: list(specs))
    ratios.append(unchecked / checked)
  box._get_xla_sharding_specs = ask
  return ratios


def main() -> None:
  settings = arguments()
  xr.use_spmd()
  torch.manual_seed(0)
  mesh = xs.Mesh(np.arange(8), (2, 4), ('data', 'model'))
  layers = [torch.nn.Linear(_WIDTH, _WIDTH) for _ in range(settings['layers'])]
  model = torch.nn.Sequential(*layers).to('xla')
  for layer in model:
    xs.mark_sharding(layer.weight, mesh, ('model', None))
  compiled = torch.compile(model, backend='openxla')
  host = torch.randn(_BATCH, _WIDTH)
  sections = Sections()

  def step() -> float:
    start = time.perf_counter()
    with sections.section('input transfer'):
      x = host.to('xla')
    y = compiled(x)
    # In every step: queued steps would hide the host's share.
    xm.wait_device_ops()
    seconds = time.perf_counter() - start
    del y
    return seconds

  with torch.no_grad(), count_traces() as counter:
    for _ in range(settings['warm_up']):
      step()
    asked_before = checks()
    cpu = time.process_time()
    seconds = [step() for _ in range(settings['steps'])]
    cpu = time.process_time() - cpu

    # Where every step asked once: none retraced, and the check has not ended.
    unchecked = []
    if checks() - asked_before == settings['steps']:
      unchecked = without_check(step, max(1,
                                          settings['steps'] // _STEPS_A_PAIR))

    # A second pass, because watching costs time of its own.
    box = torch_xla._XLAC
    sections.watch(dynamo_bridge, 'extract_graph_helper', 'tracing')
    sections.watch(box, '_get_xla_sharding_specs', 'sharding check')
    sections.watch(box, '_run_cached_graph', 'dispatch')
    sections.watch(box, '_xla_wait_device_ops', 'execution (wait)')
    sections.seconds.clear()
    before = metric_ms()
    total = sum(step() for _ in range(settings['steps']))
    after = metric_ms()

  sections.seconds[_REST] = total - sum(sections.seconds.values())
  report(
      version=torch_xla.__version__,
      steps=settings['warm_up'] + 2 * settings['steps'],
      traces=counter['traces'],
      ms=median_ms(seconds),
      cpu_ms=1e3 * cpu / settings['steps'],
      without_check=statistics.median(unchecked) if unchecked else None,
      breakdown=sections.milliseconds(settings['steps']),
      metrics={
          name: (after[name] - before[name]) / settings['steps']
          for name in _METRICS
      })


if __name__ == '__main__':
  main()
