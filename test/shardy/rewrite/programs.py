"""Programs in which two shardings contend for one tensor, and how that ends.

Each program is run with several orders of priorities. What is expected of each
run was reasoned out from Shardy's rules (openxla/shardy, docs/propagation.md):
in round p only shardings of priority p or lower propagate, whatever is free
takes the first that reaches it, and no annotation is ever overridden.

Every program is partitioned over a mesh of 2 x 4 devices with axes x and y.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
import contextlib
import dataclasses
import functools
import math
import re

import environments
import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torch_xla
from torch_xla.distributed import spmd as xs
from torch_xla.experimental.scan import scan
from torch_xla.shardy import door
from torch_xla.shardy.compile.record import ProgramRecord
from torch_xla.shardy.hlo import messages, protos

AXES = {'x': 2, 'y': 4}
# The environment of a test module that runs these programs.
ENVIRONMENT = environments.SHARDY
_SEED = 5

Spec = tuple[str | tuple[str, ...] | None, ...]
Tensors = Mapping[str, torch.Tensor]


@dataclasses.dataclass(frozen=True)
class Input:
  """A tensor with data: normal deviates, or indices below `below`."""
  shape: tuple[int, ...]
  spec: Spec
  scale: float = 1.0
  below: int = 0

  def make(self) -> torch.Tensor:
    if self.below:
      return torch.randint(self.below, self.shape)
    return self.scale * torch.randn(self.shape)


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
  """One order of priorities, and what Shardy has to make of it.

  Attributes:
    priorities: of the split dimension of each input; 'mark' for the tensor that
      the program marks.
    between: the placement of each tensor in between, by its HLO opcode.
    result: the placement of the first result, as torch_xla reads it.
    collectives: bytes by kind, as 'all_gather', in XLA:CPU's program; one in a
      loop counts once.
  """
  priorities: Mapping[str, int]
  between: Mapping[str, Spec]
  result: str
  collectives: Mapping[str, int]


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
  """A program and its runs.

  Attributes:
    compute: from the inputs, and what marks a tensor, to the results.
    between: global shapes of the tensors that shardings contend for, by HLO
      opcode; no other instruction has it, scalars aside.
    gradients: whether the program has a backward pass as well.
    mark: the partition spec of the tensor that `compute` marks.
    runs: each differs from the one before in two priorities, swapped.
  """
  name: str
  inputs: Mapping[str, Input]
  compute: Callable[[Tensors, Callable], tuple[torch.Tensor, ...]]
  between: Mapping[str, tuple[int, ...]]
  runs: tuple[Run, ...]
  gradients: bool = False
  mark: Spec = ()


@dataclasses.dataclass(frozen=True)
class Ran:
  """What became of a run.

  Attributes:
    compiled: the program that XLA:CPU made, as text.
    results: of the program, then the inputs' gradients.
    expected: likewise, by torch alone.
  """
  record: ProgramRecord
  compiled: str
  results: tuple[torch.Tensor, ...]
  expected: tuple[torch.Tensor, ...]


def moved(ran: Ran) -> dict[str, int]:
  """Bytes by kind of collective, as `Run.collectives` has them."""
  return {c.kind.replace('-', '_'): c.nbytes for c in ran.record.collectives}


def local_shape(shape: tuple[int, ...], spec: Spec) -> tuple[int, ...]:
  """What one device computes of a tensor so placed."""
  return tuple(size // math.prod(AXES[axis]
                                 for axis in axes_of(entry))
               for size, entry in zip(shape, spec))


def axes_of(entry: str | tuple[str, ...] | None) -> tuple[str, ...]:
  """The mesh axes that an entry of a partition spec names."""
  return (entry,) if isinstance(entry, str) else entry or ()


def computed_shapes(module: str, opcode: str,
                    rank: int) -> set[tuple[int, ...]]:
  """The shapes that instructions of an opcode have in a module's text.

  Scalars are left out: reductions have an instruction for them of their own.

  Args:
    rank: of the tensor looked for. What came by an all-to-all stays in as many
      tiles, the leading dimension; a gather keeps a dimension of size 1.
  """
  shapes = set()
  for text in re.findall(rf' = \w+\[([\d,]+)\]\S* {opcode}\(', module):
    dims = list(map(int, text.split(',')))
    if len(dims) > rank and 1 in dims:
      dims.remove(1)
    if len(dims) > rank:
      dims[:2] = [dims[0] * dims[1]]
    shapes.add(tuple(dims))
  return shapes


@functools.lru_cache(maxsize=None)
def run(program: Program, which: Run) -> Ran:
  """Runs the program sharded, and unsharded by torch; once per process."""
  torch.manual_seed(_SEED)
  values = {name: i.make() for name, i in program.inputs.items()}
  expected = _results(program, values, lambda t: t)
  mesh = xs.Mesh(np.arange(8), tuple(AXES.values()), tuple(AXES))

  def priority(name: str, spec: Spec) -> tuple[int | None, ...]:
    return tuple(which.priorities[name] if axis else None for axis in spec)

  def mark(t: torch.Tensor) -> torch.Tensor:
    return xs.mark_sharding_with_gradients(
        t, mesh, program.mark, priority=priority('mark', program.mark))

  tensors = {name: value.detach().to('xla') for name, value in values.items()}
  for name, t in tensors.items():
    spec = program.inputs[name].spec
    if any(spec):
      xs.mark_sharding(t, mesh, spec, priority=priority(name, spec))
    else:
      xs.mark_sharding(t, mesh, spec)
  torch_xla.sync(wait=True)
  with compiled_texts() as texts, torch_xla.shardy.record() as programs:
    results = _results(program, tensors, mark)
    torch_xla.sync(wait=True)
  record, = programs
  text, = texts
  return Ran(record, text, results, expected)


def _results(program: Program, values: Tensors,
             mark: Callable) -> tuple[torch.Tensor, ...]:
  if not program.gradients:
    return program.compute(values, mark)
  for t in values.values():
    t.requires_grad_()
  results = program.compute(values, mark)
  results[0].square().sum().backward()
  return (*(r.detach() for r in results), *(t.grad for t in values.values()))


@contextlib.contextmanager
def compiled_texts() -> Iterator[list[str]]:
  """Collects the texts of the programs that the backend makes in the block."""
  from jaxlib import _hlo  # XLA's own printer.
  texts: list[str] = []

  def compile_and_keep(compilation: door.Compilation,
                       rest: door.Compiler) -> None:
    rest(compilation)
    program, _ = compilation.compiled_program()
    module = messages.parse(protos.HloModuleProtoWithConfig, program).hlo_module
    texts.append(
        _hlo.HloModule.from_serialized_hlo_module_proto(
            module.SerializeToString()).to_string())

  undo = door.wrap(compile_and_keep)
  try:
    yield texts
  finally:
    undo()


def _add(t: Tensors, mark: Callable) -> tuple[torch.Tensor, ...]:
  return (t['a'] + t['b'],)


def _matmul(t: Tensors, mark: Callable) -> tuple[torch.Tensor, ...]:
  return (torch.tanh(t['x']) @ t['w'],)


def _embedding(t: Tensors, mark: Callable) -> tuple[torch.Tensor, ...]:
  return (F.embedding(t['indices'], t['weight']),)


def _mlp(t: Tensors, mark: Callable) -> tuple[torch.Tensor, ...]:
  hidden = torch.tanh(t['x'] @ t['up'])
  return (torch.sin(t['x'] + hidden @ t['down']),)


def _attention(t: Tensors, mark: Callable) -> tuple[torch.Tensor, ...]:
  q, k, v = (
      torch.einsum('bse,ehd->bshd', t['x'], t[name])
      for name in ('query', 'key', 'value'))
  scores = torch.softmax(torch.einsum('bqhd,bkhd->bhqk', q, k), -1)
  heads = torch.einsum('bhqk,bkhd->bqhd', scores, v)
  return (torch.einsum('bqhd,hde->bqe', heads, t['out']),)


def _loop(t: Tensors, mark: Callable) -> tuple[torch.Tensor, ...]:
  return loop_over(t, mark, torch.cos)


def loop_over(t: Tensors, mark: Callable,
              output: Callable) -> tuple[torch.Tensor, ...]:
  """Runs layers in a loop that gives `output` of each one's activation."""

  def layer(carry, weight):
    carry = mark(torch.tanh(torch.sin(carry @ weight)))
    return carry, output(carry)

  if t['x'].device.type == 'cpu':
    carry, layers = t['x'], []
    for weight in t['weights']:
      carry, y = layer(carry, weight)
      layers.append(y)
    return carry, torch.stack(layers)
  return scan(layer, t['x'], t['weights'])


_X_ROWS = '{devices=[2,1,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}'
_Y_ROWS = '{devices=[4,1,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}'
_Y_COLUMNS = '{devices=[1,4,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}'
_ALL = ('x', 'y')

# Both want the rows of the sum. The loser is moved to meet the winner: tiles of
# 4 rows each change places and, if x wins, two of them make 8 rows.
ADD = Program(
    'add',
    dict(a=Input((16, 8), ('x', None)), b=Input((16, 8), ('y', None))),
    _add,
    dict(add=(16, 8)),
    runs=(Run(
        dict(a=0, b=1), dict(add=('x', None)), _X_ROWS,
        dict(collective_permute=4 * 8 * 4, all_gather=8 * 8 * 4)),
          Run(
              dict(a=1, b=0), dict(add=('y', None)), _Y_ROWS,
              dict(collective_permute=4 * 8 * 4))))

# Axis y is to split the batch or the contracting dimension of x. By batch w is
# gathered; by contraction x is turned from rows to columns, and the partial
# products are added up.
MATMUL = Program(
    'matmul',
    dict(x=Input((16, 32), ('y', None)), w=Input((32, 8), ('y', None))),
    _matmul,
    dict(tanh=(16, 32)),
    runs=(Run(
        dict(x=0, w=1), dict(tanh=('y', None)), _Y_ROWS,
        dict(all_gather=32 * 8 * 4)),
          Run(
              dict(x=1, w=0), dict(tanh=(None, 'y')), '{replicated}',
              dict(all_to_all=4 * 32 * 4, all_reduce=16 * 8 * 4))))

# Either the table is gathered or the indices, as 4 bytes each.
EMBEDDING = Program(
    'embedding',
    dict(
        indices=Input((64, 16), (_ALL, None), below=32),
        weight=Input((32, 16), (None, _ALL))),
    _embedding,
    dict(gather=(64 * 16, 16)),
    runs=(Run(
        dict(indices=0, weight=1), dict(gather=(_ALL, None)),
        '{devices=[8,1,1]0,1,2,3,4,5,6,7}', dict(all_gather=32 * 16 * 4)),
          Run(
              dict(indices=1, weight=0),
              dict(gather=(None, _ALL)), '{devices=[1,1,8]0,1,2,3,4,5,6,7}',
              dict(all_gather=64 * 16 * 4))))

# The batch, the hidden features and the output features all want y. The first
# swap gives the hidden tensor to its features, the second the output to its.
# By batch alone both weights are gathered, forward and backward, and both
# gradients added up. The others' bytes are those of this version of XLA.
MLP = Program(
    'mlp',
    dict(
        x=Input((16, 8), ('y', None)),
        up=Input((8, 32), (None, 'y')),
        down=Input((32, 8), (None, 'y'))),
    _mlp,
    dict(tanh=(16, 32), sine=(16, 8)),
    runs=(Run(
        dict(x=0, up=1, down=2), dict(tanh=('y', None), sine=('y', None)),
        _Y_ROWS, dict(all_gather=4 * 8 * 32 * 4, all_reduce=2 * 8 * 32 * 4)),
          Run(
              dict(x=1, up=0, down=2), dict(tanh=(None, 'y'), sine=('y', None)),
              _Y_ROWS,
              dict(all_gather=2560, all_reduce=16 * 8 * 4, all_to_all=768)),
          Run(
              dict(x=2, up=0, down=1), dict(tanh=(None, 'y'), sine=(None, 'y')),
              _Y_COLUMNS,
              dict(all_gather=3584, all_reduce=16 * 8 * 4, all_to_all=384))),
    gradients=True)

# By batch the four weights are gathered, and their gradients added up. By heads
# x is gathered, and what the heads give is added up: once for the result, and
# for x's gradient once each by way of query, key and value.
ATTENTION = Program(
    'attention',
    dict(
        x=Input((8, 6, 16), ('y', None, None)),
        query=Input((16, 4, 8), (None, 'y', None), 0.25),
        key=Input((16, 4, 8), (None, 'y', None), 0.25),
        value=Input((16, 4, 8), (None, 'y', None), 0.25),
        out=Input((4, 8, 16), ('y', None, None), 0.25)),
    _attention,
    dict(exponential=(8, 4, 6, 6)),
    runs=(Run(
        dict(x=0, query=1, key=1, value=1, out=1),
        dict(exponential=('y', None, None, None)),
        '{devices=[4,1,1,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}',
        dict(all_gather=4 * 16 * 4 * 8 * 4, all_reduce=4 * 16 * 4 * 8 * 4)),
          Run(
              dict(x=1, query=0, key=0, value=0, out=0),
              dict(exponential=(None, 'y', None, None)), '{replicated}',
              dict(all_gather=8 * 6 * 16 * 4, all_reduce=4 * 8 * 6 * 16 * 4))),
    gradients=True)

# A marked activation against the weights that the loop runs over. It keeps its
# mark in any case; what comes before it follows the one that goes first. By
# batch the layer's weight is gathered, by features the activation, whose result
# is then turned from columns to rows.
LOOP = Program(
    'loop',
    dict(
        x=Input((16, 8), (None, None)),
        weights=Input((3, 8, 8), (None, None, 'y'))),
    _loop,
    dict(sine=(16, 8)),
    runs=(Run(
        dict(mark=0, weights=1), dict(sine=('y', None)), _Y_ROWS,
        dict(all_gather=8 * 8 * 4)),
          Run(
              dict(mark=1, weights=0), dict(sine=(None, 'y')), _Y_ROWS,
              dict(all_gather=16 * 8 * 4, all_to_all=16 * 2 * 4))),
    mark=('y', None))

PROGRAMS = (ADD, MATMUL, EMBEDDING, MLP, ATTENTION, LOOP)
# Arguments for pytest.mark.parametrize: each run of each program.
RUNS = [(program, which) for program in PROGRAMS for which in program.runs]
RUN_IDS = [
    f'{program.name} '
    f'{" ".join(f"{name}={p}" for name, p in which.priorities.items())}'
    for program, which in RUNS
]
# The same for those who look at what others made of them: in the whole at a few.
JUDGED = [
    pytest.param(
        *run,
        id=name,
        marks=[pytest.mark.nightly] * (run[0] not in (ADD, LOOP)))
    for run, name in zip(RUNS, RUN_IDS)
]
