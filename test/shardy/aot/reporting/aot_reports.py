"""Reports made by hand, for the tests of what reads reports."""

from __future__ import annotations

import dataclasses
from typing import Any

from torch_xla.shardy.aot.report import (CollectiveUse, Cycles, HeavyTensor,
                                         Memory, Program, AotReport, Topology)

GIB = 1 << 30
# As libtpu 0.0.42 says it.
OUT_OF_MEMORY = (
    'RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required '
    'for HLO temporaries (36.00G) exceeds available HBM (15.75G).')
TOPOLOGY = Topology(
    name='v5e:16x16',
    kind='TPU v5 lite',
    chips=256,
    devices=256,
    hosts=64,
    slices=1,
    memory=16_911_433_728,
    compiler='TPU 0.0.42')
# Its peak is 9.5 GiB.
MEMORY = Memory(
    arguments=4 * GIB,
    outputs=4 * GIB,
    aliases=3 * GIB,
    temporaries=4 * GIB,
    code=GIB // 2)
GATHER = CollectiveUse('all-gather', ('model',), '16 groups of 16', 12,
                       3 * GIB // 2)
REDUCE = CollectiveUse('all-reduce', ('data', 'model'), '1 group of 256', 3,
                       4096)
STRANGE = CollectiveUse('all-reduce', (), '128 groups of 2', 1, 512)


def program(name: str = 'SyncTensorsGraph.52', **changes: Any) -> Program:
  """The program of a training step."""
  step = Program(
      name=name,
      called_from=('train.py:41 in step', 'train.py:60 in main'),
      step=0,
      seconds=12.5,
      partitions=256,
      partitioner='shardy',
      executions=4,
      sent='0123456789abcdef',
      memory=MEMORY,
      heaviest=(HeavyTensor('embed.weight', 'argument', 'bf16[8192,4096]',
                            2 * GIB),
                HeavyTensor('result 7', 'result', 'f32[4096,4096]', GIB)),
      collectives=(GATHER, REDUCE),
      flops=1.5e15,
      cycles=Cycles(2_500_000, 120, (('all-reduce', 3), ('sort', 1)), 2))
  return dataclasses.replace(step, **changes)


def start(**changes: Any) -> Program:
  """A program that is executed once."""
  return program(
      **{
          'name': 'SyncTensorsGraph.9',
          'called_from': ('train.py:12 in <module>',),
          'executions': 1,
          'memory': Memory(8, 4096, 0, 0, 100_000),
          'heaviest': (),
          'collectives': (),
          'flops': None,
          'cycles': Cycles(900, 2),
          'sent': 'fedcba9876543210',
          **changes
      })


def refused(**changes: Any) -> Program:
  return program(
      **{
          'error': OUT_OF_MEMORY,
          'memory': None,
          'heaviest': (),
          'collectives': (),
          'flops': None,
          'cycles': None,
          'executions': 0,
          **changes
      })


def report(*programs: Program, **changes: Any) -> AotReport:
  """The report of a script of three steps that compiled in the first alone.

  Its usual step is what was executed in each step since it was compiled.
  """
  whole = AotReport(
      script=('train.py', '--layers', '24'),
      topology=TOPOLOGY,
      mode='shardy',
      host=0,
      processes=1,
      meshes=('data=16, model=16',),
      programs=programs or (start(), program()),
      steps=3,
      ended='stopped after 3 steps',
      reads=17,
      traces=(('lazy graphs cut, one per sync', 4),),
      findings=('one device of 4 was asked for.',),
      seconds=31.25,
      host_memory=3 * GIB)
  whole = dataclasses.replace(whole, **changes)
  if 'usual_step' in changes:
    return whole
  usual = tuple(i for i, p in enumerate(whole.programs)
                if p.step < whole.warm_up and p.executions >= whole.steps -
                p.step and not p.error)
  return dataclasses.replace(
      whole, usual_step=usual, usual_steps=whole.steps - whole.warm_up)


def empty(**changes: Any) -> AotReport:
  """The report of a script that compiled nothing."""
  return dataclasses.replace(
      report(), programs=(), steps=0, usual_step=(), usual_steps=0, **changes)


def awkward() -> AotReport:
  """Names of all kinds, numbers of all sizes, and what nobody knows."""
  markup = '<script>document["title"]="run"</script>&' + 'x' * 120
  odd = program(
      'Grüße \u7f51 \udc80',
      called_from=(f'{markup}.py:1 in 函数', 'b.py:2 in c'),
      memory=Memory(2**62, 0, 0, 2**60, 1),
      heaviest=(HeavyTensor(markup, 'argument', 'f32[]', 2**62),),
      flops=1e300,
      cycles=Cycles(10**18, 10**9),
      collectives=(STRANGE, GATHER, REDUCE))
  untold = program(
      called_from=(),
      memory=None,
      flops=None,
      cycles=None,
      note='Shardy cannot be told: GSPMD compiled it')
  return report(
      odd,
      odd,
      program(),
      program(),
      untold,
      refused(error=f'{OUT_OF_MEMORY}\n\n  line <two>\n'),
      script=(markup, '--ü', '\udcff'),
      topology=Topology('tpu7x:2x2x1', 'TPU7x', 4, 8, 1, 2, GIB),
      meshes=(),
      traceback='Traceback\n  line\nError: <b>',
      failed=True,
      ended=f'ValueError: {markup}',
      reads=1,
      steps=1)
