"""What the doctor says of graphs that are alike to `_XLAC`.

test/behaviour/identity has the graphs.
"""

from __future__ import annotations

import processes
import pytest
import torch
from torch_xla.shardy.doctor import identity
from torch_xla.shardy.doctor.report import Status

ENVIRONMENT = {}  # Beside the tests that need no child.
_OFF = {'PJRT_DEVICE': 'CPU', 'CPU_NUM_DEVICES': '2'}
_A, _B = torch.tensor([6., 8.]), torch.tensor([2., 4.])


def test_finding_where_they_are_not_told_apart(monkeypatch):
  monkeypatch.setattr(identity, '_run', lambda f: (-f(_A, _B), f(_A, _B)))
  found = identity.find()
  assert found.status is Status.WARNING
  assert found.message.endswith('[-1.3333333730697632, -2.0] for '
                                '[1.3333333730697632, 2.0]')


_NOT_LOADED = '''
import torch
{first}
import torch_xla
from torch_xla.shardy.doctor import identity
print(identity.find())
'''


@pytest.mark.nightly
@pytest.mark.parametrize('first, variables', [
    pytest.param("torch.__version__ = '2.10.0'", {}, id='torch'),
    pytest.param('', {'TORCH_USE_RTLD_GLOBAL': '1'}, id='global'),
])
def test_doctor_warns_where_they_are_not_told_apart(first, variables):
  done = processes.run(_NOT_LOADED.format(first=first), **_OFF, **variables)
  assert 'Status.WARNING' in done.stdout, done.stderr
  assert 'libgraph_identity.so has no effect' in done.stdout
