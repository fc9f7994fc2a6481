"""A traced training step, as it would be over more devices than there are.

The step is traced over 8 devices; each of its shardings is then replaced by the
one that the same partition spec gives on a larger mesh.
"""

from typing import Iterator, Tuple

from examples import train_sharded
import numpy as np
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.spmd as xs
from torch_xla.shardy.hlo import messages, op_sharding, protos
from torch_xla.shardy.sharding.hlo_sharding import HloSharding
from torch_xla.shardy.sharding.partition_spec import sharding_of

MESH = (2, 4)


def run_step(decay: float = 0) -> None:
  """A step of examples/train_sharded.py on MESH.

  Needs SPMD over 8 devices.

  Args:
    decay: of weights; with any it is another program.
  """
  mesh = xs.Mesh(np.arange(8), MESH, ('data', 'model'))
  model = train_sharded.Model().to('xla')
  train_sharded.annotate(model, mesh)
  tokens = torch.zeros(
      train_sharded.BATCH, train_sharded.LENGTH, dtype=torch.int64).to('xla')
  xs.mark_sharding(tokens, mesh, ('data', None))
  optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=decay)
  torch_xla.sync()
  logits = model(tokens)
  xs.mark_sharding(logits, mesh, ('data', None, None))
  F.cross_entropy(logits.flatten(0, 1), tokens.flatten()).backward()
  optimizer.step()
  torch_xla.sync()


def traced_step() -> bytes:
  """The program of `run_step` in V1, as `_XLAC` sends it.

  Needs a mode on, besides.
  """
  with torch_xla.shardy.record() as programs:
    run_step()
  return max((p.sent for p in programs), key=len)


def scaled(program: bytes, mesh: Tuple[int, int]) -> bytes:
  """The program as it would be on `mesh`, from one traced on MESH; in V1.

  Raises:
    ValueError: a sharding is of no partition spec that uses one axis per dim.
  """
  rewritten = {}

  def rewrite(data: bytes, _) -> bytes:
    if data not in rewritten:
      sharding = _scaled(op_sharding.from_bytes(data), mesh).to_v1()
      rewritten[data] = op_sharding.to_bytes(sharding)
    return rewritten[data]

  module = messages.parse(protos.HloModuleProto, program)
  op_sharding.rewrite_module(module, rewrite)
  return module.SerializeToString()


def _scaled(sharding: HloSharding, mesh: Tuple[int, int]) -> HloSharding:
  if sharding.elements:
    return HloSharding.tuple_of(_scaled(e, mesh) for e in sharding.elements)
  if sharding.tiles is None:
    return sharding
  for spec in _specs(sharding.rank):
    if sharding_of(MESH, None, spec) == sharding:
      return sharding_of(mesh, None, spec)
  raise ValueError(f'{sharding} is of no partition spec on mesh {MESH}')


def _specs(rank: int) -> Iterator[Tuple]:
  """All partition specs of a mesh with two axes that use one axis per dim."""
  for data in (None, *range(rank)):
    for model in (None, *range(rank)):
      if data is None or data != model:
        yield tuple(0 if dim == data else 1 if dim == model else None
                    for dim in range(rank))
