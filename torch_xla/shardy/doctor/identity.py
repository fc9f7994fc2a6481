"""Checks that programs are distinct that differ only in where a tensor is used.

`_XLAC` 2.9.0 finds a compiled program by a hash to which all data of one shape
and placement is alike, wherever it is used. `libgraph_identity.so`, which
torch_xla's import loads before it, adds that to the hash.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch_xla

from .report import Finding, Status

_LEFT, _RIGHT = (6., 8.), (2., 4.)


def find() -> Finding:
  """Runs two such programs, and nothing that the process has pending."""
  _run(lambda a, b: (a - b) * (a / b))
  actual, expected = _run(lambda a, b: (a - b) * (b / a))
  if torch.allclose(actual, expected):
    return Finding('', Status.OK,
                   'programs that differ in where a tensor is used are apart')
  return Finding(
      '', Status.WARNING,
      'after (a - b) * (a / b), (a - b) * (b / a) is computed by the program of '
      f'the first: {actual.tolist()} for {expected.tolist()}',
      'libgraph_identity.so has no effect: torch has to be 2.9, loaded without '
      'TORCH_USE_RTLD_GLOBAL, and _XLAC by import torch_xla')


def _run(f: Callable) -> tuple[torch.Tensor, torch.Tensor]:
  """The result of a device, and the host's."""
  host = torch.tensor(_LEFT), torch.tensor(_RIGHT)
  result = f(*(t.to('xla') for t in host))
  torch_xla._XLAC._xla_sync_multi([result], [], True, True)
  return result.cpu(), f(*host)
