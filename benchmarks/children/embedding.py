"""Bytes that a training step of an embedding moves, by the priorities given.

The table is split over its features and the tokens over their sequences, along
the same mesh axis, as data parallelism with sharded tables does.
"""

import numpy as np
from sections import arguments, report
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr


def main() -> None:
  settings = arguments()
  xr.use_spmd()
  torch.manual_seed(0)
  mesh = xs.Mesh(np.arange(8), (8,), ('data',))
  table = torch.randn(settings['vocabulary'], settings['features'])
  tokens = torch.randint(settings['vocabulary'],
                         (settings['batch'], settings['length']))
  moved, losses = {}, {}
  for title, table_first, tokens_first in (('default', None,
                                            None), ('table first', 0, 1),
                                           ('tokens first', 1, 0)):
    weight = table.to('xla').requires_grad_()
    batch = tokens.to('xla')
    said = lambda p, dims: {} if p is None else {'priority': dims}
    xs.mark_sharding(weight, mesh, (None, 'data'),
                     **said(table_first, (None, table_first)))
    xs.mark_sharding(batch, mesh, ('data', None),
                     **said(tokens_first, (tokens_first, None)))
    torch_xla.sync(wait=True)
    with torch_xla.shardy.record() as programs:
      loss = F.embedding(batch, weight).square().mean()
      loss.backward()
      torch_xla.sync(wait=True)
    program = programs[-1]
    assert program.partitioner.value == 'shardy', program.note
    moved[title] = sum(c.nbytes for c in program.collectives)
    losses[title] = loss.item()
  report(version=torch_xla.__version__, moved=moved, losses=losses)


if __name__ == '__main__':
  main()
