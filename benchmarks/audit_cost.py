"""What an audit of a model with 1,000 parameters costs, and what it costs not.

Each round trains a stack of linear layers over 2 x 4 virtual CPU devices in two
fresh processes: one whose tensors are marked by a policy, and one where the
same marks are made by hand, so that nothing of the policy or the audit is even
imported. The first is audited after its steps. Measures the torch_xla that this
Python imports.
"""

import argparse
import json
import os
import statistics
import sys
import time
from typing import Any, Callable, Dict, List

from .errors import BenchmarkError
from .processes import run_process

_SECONDS = 900
_DROPPED = ('PJRT_', 'XLA_', 'CONVERT_SHLO_TO_SHARDY', 'CPU_NUM_', 'NPROC',
            'TPU_', 'PT_XLA_', 'TF_CPP_')
_MODES = {
    'off': {},
    'v2': {
        'XLA_SHARDING_V2': '1'
    },
    'shardy': {
        'XLA_USE_SHARDY': '1'
    }
}
_BY_POLICY, _BY_HAND = 'policy', 'hand'
_CHILD = '''
import json, sys, time
import numpy as np, torch, torch_xla
import torch_xla.distributed.spmd as xs, torch_xla.runtime as xr
marks, layers, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
xr.use_spmd()
mesh = xs.Mesh(np.arange(8), (2, 4), ('data', 'model'))
model = torch.nn.Sequential(*(torch.nn.Linear(16, 16) for _ in range(layers)))
model = model.to('xla')
said = {}
if marks == 'policy':
  from torch_xla.distributed.spmd.policy import *
  policy = ShardingPolicy((Rule('*.weight', ('model', None)),), REPLICATED)
  start = time.perf_counter()
  policy.apply(model, mesh)
  said['apply'] = time.perf_counter() - start
else:
  for name, t in model.named_parameters():
    xs.mark_sharding(t, mesh, ('model', None) if t.dim() == 2 else (None,))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(8, 16).to('xla')
torch_xla.sync(wait=True)
seconds = []
for _ in range(steps + 2):
  start = time.perf_counter()
  optimizer.zero_grad()
  model(x).sum().backward()
  optimizer.step()
  torch_xla.sync(wait=True)
  seconds.append(time.perf_counter() - start)
said['first'], said['steps'] = seconds[0], seconds[2:]
if marks == 'policy':
  from torch_xla.distributed.spmd.audit import audit
  audits = []
  for _ in range(5):
    start = time.perf_counter()
    report = audit(model, policy)
    audits.append(time.perf_counter() - start)
  # The first has nothing cached yet.
  said['audit'], said['again'] = audits[0], audits[1:]
  said['tensors'] = len(report.tensors)
  for what, make in (('table', report.__str__), ('json', report.to_json),
                     ('html', report.to_html)):
    start = time.perf_counter()
    make()
    said[what] = time.perf_counter() - start
print(json.dumps(said))
'''


def train(marks: str, mode: str, layers: int, steps: int) -> Dict[str, Any]:
  """What one process says of itself; seconds.

  Raises:
    BenchmarkError: it failed or hung.
  """
  inherited = {
      n: v for n, v in os.environ.items() if not n.startswith(_DROPPED)
  }
  settings = {
      'PJRT_DEVICE': 'CPU',
      'CPU_NUM_DEVICES': '8',
      'TF_CPP_MIN_LOG_LEVEL': '2',
      **_MODES[mode]
  }
  command = [sys.executable, '-c', _CHILD, marks, str(layers), str(steps)]
  lines = run_process(command, {**inherited, **settings}, marks, _SECONDS)
  return json.loads(lines[-1])


def measure(mode: str, layers: int, steps: int, rounds: int,
            say: Callable[[str], None]) -> Dict[str, List[Dict[str, Any]]]:
  """What the processes said, by kind, in order of the rounds.

  Raises:
    BenchmarkError: a process failed.
  """
  samples: Dict[str, List[Dict[str, Any]]] = {_BY_POLICY: [], _BY_HAND: []}
  for number in range(rounds):
    # In turns, so that neither always runs first.
    order = (_BY_POLICY, _BY_HAND) if number % 2 == 0 else (_BY_HAND,
                                                            _BY_POLICY)
    for marks in order:
      said = train(marks, mode, layers, steps)
      samples[marks].append(said)
      say(f'round {number + 1} of {rounds}, marked by {marks}: median step '
          f'{statistics.median(said["steps"]) * 1e3:.1f} ms')
  return samples


def text(samples: Dict[str, List[Dict[str, Any]]]) -> str:
  """The figures: medians over the rounds, and the range of the ratio."""
  policy, hand = samples[_BY_POLICY], samples[_BY_HAND]

  def median(name: str) -> float:
    return statistics.median(s[name] for s in policy)

  steps = {
      marks: [statistics.median(s['steps']) for s in said]
      for marks, said in samples.items()
  }
  ratios = [p / h for p, h in zip(steps[_BY_POLICY], steps[_BY_HAND])]
  again = statistics.median(a for s in policy for a in s['again'])
  return '\n'.join([
      f'{policy[0]["tensors"]} parameters, {len(policy)} round(s)',
      f'apply: {median("apply"):.3f} s',
      f'audit: {median("audit"):.3f} s, repeated {again:.3f} s',
      f'table {median("table"):.3f} s, JSON {median("json"):.3f} s, HTML '
      f'{median("html"):.3f} s',
      f'first step, which compiles: by policy {median("first"):.2f} s, by hand '
      f'{statistics.median(s["first"] for s in hand):.2f} s',
      f'step: by policy {statistics.median(steps[_BY_POLICY]) * 1e3:.1f} ms, '
      f'by hand {statistics.median(steps[_BY_HAND]) * 1e3:.1f} ms; ratio '
      f'{statistics.median(ratios):.3f} (rounds {min(ratios):.3f} to '
      f'{max(ratios):.3f})',
  ])


def main() -> None:
  parser = argparse.ArgumentParser(
      prog='python -m benchmarks.audit_cost', description=__doc__)
  parser.add_argument('--rounds', type=int, default=3, metavar='N')
  parser.add_argument('--steps', type=int, default=10, metavar='N')
  parser.add_argument(
      '--layers',
      type=int,
      default=500,
      metavar='N',
      help='two parameters each (default: %(default)s)')
  parser.add_argument('--mode', choices=list(_MODES), default='shardy')
  options = parser.parse_args()
  if min(options.rounds, options.steps, options.layers) < 1:
    parser.error('rounds, steps and layers are at least 1')
  start = time.monotonic()

  def say(line: str) -> None:
    print(
        f'[{time.monotonic() - start:5.0f} s] {line}',
        file=sys.stderr,
        flush=True)

  try:
    samples = measure(options.mode, options.layers, options.steps,
                      options.rounds, say)
    print(text(samples))
  except BenchmarkError as error:
    sys.exit(f'error: {error}')


if __name__ == '__main__':
  main()
