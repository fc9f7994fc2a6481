"""What Shardy's route itself costs, beside XLA's compile of the same program.

Training steps of a transformer of more and more blocks, split over 8 CPU
devices, with priorities:

  plan       reading the program, saying its shardings in V2 and to Shardy
  read       reading what the compiler made of parameters, results, collectives
  answer     the compiled program as the runtime is to read it
  asked      having the backend write the compiled program down, once; without
             the route the runtime asks twice
  compile    XLA's; not run above --compile instructions

CPU seconds: of the thread, the least of three; of the process for asked and
compile.

  python -m benchmarks.route_cost [--blocks 4 16] [--compile 10000]
"""

import argparse
from collections.abc import Sequence
import os
import time
from typing import Optional

os.environ.update(PJRT_DEVICE='CPU', CPU_NUM_DEVICES='8', XLA_USE_SHARDY='1')

import numpy as np
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy import current_mode, door, switch
from torch_xla.shardy.hlo import compiled_program, messages, protos
from torch_xla.shardy.hlo.compile_options import CompileOptions, Partitioner
from torch_xla.shardy.v2 import to_v1

from .table_text import print_table

_WIDTH, _HEADS, _SEQUENCE, _BATCH = 64, 4, 16, 16
_EIGHT = CompileOptions(Partitioner.GSPMD, 1, 8)


class _Block(torch.nn.Module):

  def __init__(self):
    super().__init__()
    self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(_WIDTH) for _ in '12')
    self.qkv = torch.nn.Linear(_WIDTH, 3 * _WIDTH)
    self.out = torch.nn.Linear(_WIDTH, _WIDTH)
    self.up = torch.nn.Linear(_WIDTH, 4 * _WIDTH)
    self.down = torch.nn.Linear(4 * _WIDTH, _WIDTH)

  def forward(self, x: torch.Tensor) -> torch.Tensor:
    q, k, v = (
        t.unflatten(-1, (_HEADS, -1)).transpose(1, 2)
        for t in self.qkv(self.norms[0](x)).chunk(3, -1))
    attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
    x = x + self.out(attended.flatten(2))
    return x + self.down(F.gelu(self.up(self.norms[1](x))))


def _least(call) -> float:
  times = []
  for _ in range(3):
    start = time.thread_time()
    call()
    times.append(time.thread_time() - start)
  return min(times)


def _row(blocks: int, most: int) -> list[str]:
  mesh = xs.Mesh(np.arange(8), (4, 2), ('data', 'model'))
  model = torch.nn.Sequential(*(_Block() for _ in range(blocks))).to('xla')
  for name, parameter in model.named_parameters():
    if parameter.dim() == 2:
      is_column = 'qkv' in name or 'up' in name
      spec = ('model', None) if is_column else (None, 'model')
      xs.mark_sharding(
          parameter, mesh, spec, priority=tuple(s and 1 for s in spec))
  x = torch.randn(_BATCH, _SEQUENCE, _WIDTH).to('xla')
  xs.mark_sharding(x, mesh, ('data', None, None), priority=(0, None, None))
  optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
  torch_xla.sync()
  model(x).square().mean().backward()
  optimizer.step()

  route = switch.route(current_mode())
  parameters = [*model.parameters(), *(p.grad for p in model.parameters())]
  program = torch_xla._XLAC._get_xla_tensors_hlo_proto(
      [*parameters, *route.pending_bindings()])
  module = messages.parse(protos.HloModuleProto, program)
  count = sum(len(c.instructions) for c in module.computations)
  plan = _least(lambda: route.planner(program, 'hlo', _EIGHT))
  row = [f'{count:,}', f'{1e6 * plan / count:.1f}', f'{plan:.3f}']
  if count > most:
    torch_xla._XLAC._clear_pending_irs(str(torch_xla.device()))
    return row + ['-'] * 5

  cost = {}

  def measure(compilation, rest):
    hand_on, ask = compilation.compile, compilation.compiled_program

    def compile_(*arguments):
      start = time.process_time()
      hand_on(*arguments)
      cost['compile'] = time.process_time() - start

    def compiled():
      start = time.process_time()
      answer = ask()
      cost['asked'] = time.process_time() - start
      cost['read'] = _least(
          lambda: compiled_program.read(*answer, frozenset([('', 'dot')])))
      cost['answer'] = _least(lambda: to_v1.to_v1(*answer))
      return answer

    compilation.compile, compilation.compiled_program = compile_, compiled
    rest(compilation)

  undo = door.wrap(measure)
  with torch_xla.shardy.record() as programs:
    torch_xla.sync(wait=True)
  undo()
  made, = programs
  assert made.partitioner is Partitioner.SHARDY and not made.note, made.note
  own = plan + cost['read'] + cost['answer'] - cost['asked']
  return row + [
      *(f'{cost[name]:.3f}' for name in ('read', 'answer', 'asked', 'compile')),
      f'{own / cost["compile"]:.1%}'
  ]


def main(argv: Optional[Sequence[str]] = None) -> None:
  parser = argparse.ArgumentParser(
      prog='python -m benchmarks.route_cost',
      description=__doc__,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument('--blocks', type=int, nargs='+', default=[4, 8, 100])
  parser.add_argument('--compile', type=int, default=10_000)
  args = parser.parse_args(argv)
  xr.use_spmd()
  rows = [_row(blocks, args.compile) for blocks in args.blocks]
  print_table('Own cost of Shardy\'s route', [
      'instructions', 'us each', 'plan', 'read', 'answer', 'asked', 'compile',
      '(plan + read + answer - asked) / compile'
  ], rows)


if __name__ == '__main__':
  main()
