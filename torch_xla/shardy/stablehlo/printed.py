"""Keeps bindings and tags out of the StableHLO that `_XLAC` gives.

`xm.get_stablehlo()`, `xm.get_stablehlo_bytecode()` and torch_xla's exporter ask
`_XLAC._get_stablehlo`, which converts what was traced.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch_xla

from . import calls

_WITH_CALLS = '_with_calls'


def replace_printer() -> None:
  """Replaces `_XLAC`'s printer of StableHLO by one that omits our calls."""
  printer = torch_xla._XLAC._get_stablehlo
  if hasattr(printer, _WITH_CALLS):
    return

  def _get_stablehlo(tensors: Sequence[torch.Tensor], device: str,
                     custom_ops: Sequence[str], emit_bytecode: bool) -> bytes:
    """The graph of these tensors, or of all, as StableHLO."""
    return calls.strip(
        printer(tensors, device, custom_ops, emit_bytecode), trims=True)

  setattr(_get_stablehlo, _WITH_CALLS, printer)
  torch_xla._XLAC._get_stablehlo = _get_stablehlo


def artifact_with_calls(tensors: Sequence[torch.Tensor]) -> bytes:
  """The portable artifact of these tensors' graph, our calls in it."""
  xlac = torch_xla._XLAC
  printer = getattr(xlac._get_stablehlo, _WITH_CALLS, xlac._get_stablehlo)
  return bytes(printer(list(tensors), xlac._xla_get_default_device(), [], True))
