"""The program of pending tensors, before anything is compiled."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch_xla
from torch_xla import runtime
from torch_xla.distributed.spmd import xla_sharding

from . import lower, switch
from .mode import Mode


def lower_text(tensors: Sequence[torch.Tensor]) -> str:
  """`torch_xla.shardy.lower_text`, behind the check of the door."""
  xlac = torch_xla._XLAC
  tensors = [xla_sharding.unwrap_sharded_tensor(t) for t in tensors]
  if not any(xlac._check_tensor_need_materialization(tensors)):
    raise ValueError('none of the tensors has anything pending: there is no '
                     'program to show. Ask before torch_xla.sync()')
  if switch.current_mode() is Mode.SHARDY:
    from . import binding, sdy_compiler
    program = sdy_compiler.lower_program(
        xlac._get_xla_tensors_hlo_proto([*tensors,
                                         *binding.pending_bindings()]),
        runtime.global_runtime_device_count())
  else:
    program = lower.lower(xlac._get_xla_tensors_hlo_proto(tensors)).program
  computation = xlac._xla_op_computation_from_module_proto('lowered', program)
  return xlac._xla_computation_text(computation)
