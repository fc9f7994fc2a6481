"""libgraph_identity.so as it was built, in processes of its own.

test/behaviour/identity tests the one of the wheel.
"""

from __future__ import annotations

import processes
import pytest
from shim_build import Build

# The first of two libraries that define a name has it.
_SCRIPT = '''
import ctypes
import torch
ctypes.CDLL('{path}', mode=ctypes.RTLD_GLOBAL)
import torch_xla
a, b = torch.ones(2).to('xla'), torch.ones(2).to('xla')
x, y = a - b, b - a
for graph in (
    [(a - b) * (a / b)], [(a - b) * (b / a)],
    [torch.stack((x, y, x))], [torch.stack((x, y, y))],
    [x, y, x.clone()], [x, y, y.clone()]):
  print(torch_xla._XLAC._get_graph_hash(graph).hex())
'''


@pytest.mark.nightly
def test_hashes_tell_graphs_apart_in_all_processes(build: Build) -> None:
  script = _SCRIPT.format(path=build.graph_identity)
  first, second = (
      processes.run(script, PJRT_DEVICE='CPU', PYTHONHASHSEED=seed)
      for seed in ('1', '2'))
  assert len({*first.stdout.split()}) == 6, first.stderr
  assert first.stdout == second.stdout
