"""A tensor that is read again and again is put together by one program.

https://github.com/pytorch/xla/issues/9751
"""

from __future__ import annotations

from pathlib import Path

from kinds import assert_right
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
from torch_xla_form import form, V2

ENVIRONMENT = V2
_READS = 4


@pytest.mark.skipif(
    form() == 'native',
    reason='`_XLAC` has the program compiled at each read, as upstream does')
@pytest.mark.environment()
def test_compiled_once(monkeypatch, tmp_path, request):
  # XLA reads it when the client is made, which the mesh does.
  monkeypatch.setenv('XLA_FLAGS', f'--xla_dump_to={tmp_path}')
  mesh = request.getfixturevalue('mesh')
  host = torch.randn(16, 8)
  tensor = host.to('xla')
  xs.mark_sharding(tensor, mesh, ('x', 'y'))
  torch_xla.sync(wait=True)
  assert_right(tensor, host, 0)
  compiled = _modules(tmp_path)
  assert compiled
  for _ in range(_READS):
    assert_right(tensor, host, 0)
  assert _modules(tmp_path) == compiled


def _modules(folder: Path) -> set[str]:
  """The programs that XLA has compiled, by number and name."""
  return {'.'.join(path.name.split('.')[:2]) for path in folder.iterdir()}
