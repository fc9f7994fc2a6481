"""What the doctor says of graphs that are alike to `_XLAC`.

test/behaviour/identity has the graphs.
"""

from __future__ import annotations

import torch
from torch_xla.shardy.doctor import identity
from torch_xla.shardy.doctor.report import Status

ENVIRONMENT = {}  # Beside the tests that need no child.
_A, _B = torch.tensor([6., 8.]), torch.tensor([2., 4.])


def test_finding_where_they_are_not_told_apart(monkeypatch):
  monkeypatch.setattr(identity, '_run', lambda f: (-f(_A, _B), f(_A, _B)))
  found = identity.find()
  assert found.status is Status.WARNING
  assert found.message.endswith('[-1.3333333730697632, -2.0] for '
                                '[1.3333333730697632, 2.0]')
