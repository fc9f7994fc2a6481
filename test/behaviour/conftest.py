"""What the tests of behaviours share; see `torch_xla_form`."""

import collections
from pathlib import Path

import kinds
import pytest

for _module in ('marks', 'placements'):
  pytest.register_assert_rewrite(_module)


def pytest_configure(config: pytest.Config) -> None:
  config.addinivalue_line(
      'markers',
      'means(kind): what a failure says of a torch_xla: see kinds.py')


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> None:
  """Notes the kind of a failure; the first of a test counts."""
  if call.excinfo is None or call.excinfo.errisinstance(pytest.skip.Exception):
    return
  if 'kind' not in dict(item.user_properties):
    marked = item.get_closest_marker('means')
    kind = kinds.of(call.excinfo.value, Path(call.excinfo.traceback[-1].path),
                    *(marked.args if marked else ()))
    item.user_properties.append(('kind', kind))


@pytest.fixture(name='mesh')
def mesh_fixture():
  """A mesh of two by four devices, with axes x and y."""
  # Not before a test runs: a process that only collects has no runtime.
  import numpy as np
  import torch_xla.distributed.spmd as xs
  import torch_xla.runtime as xr
  xr.use_spmd()
  return xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))


@pytest.fixture(name='spmd')
def spmd_fixture(mesh):
  """SPMD mode, in which torch has compiled nothing yet."""
  import torch
  torch._dynamo.reset()


@pytest.fixture(name='traces')
def traces_fixture(monkeypatch) -> collections.Counter:
  """Counts the traces of compiled graphs, under the key 'n'."""
  import torch
  from torch_xla._dynamo import dynamo_bridge
  torch._dynamo.reset()
  counter, trace = collections.Counter(), dynamo_bridge.extract_graph_helper

  def counted(*args):
    counter['n'] += 1
    return trace(*args)

  monkeypatch.setattr(dynamo_bridge, 'extract_graph_helper', counted)
  return counter
