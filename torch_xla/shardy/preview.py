"""The program of pending tensors, before anything is compiled."""

from __future__ import annotations

from collections.abc import Sequence
import os

import torch
import torch_xla
from torch_xla import runtime
from torch_xla.distributed.spmd import xla_sharding

from . import switch
from .hlo.compile_options import CompileOptions, Partitioner
from .mode import current_mode, leaves_as_stablehlo


def lower_text(tensors: Sequence[torch.Tensor]) -> str:
  """`torch_xla.shardy.lower_text`, behind the check of the door."""
  xlac = torch_xla._XLAC
  tensors = [xla_sharding.unwrap_sharded_tensor(t) for t in tensors]
  if not any(xlac._check_tensor_need_materialization(tensors)):
    raise ValueError('none of the tensors has anything pending: there is no '
                     'program to show. Ask before torch_xla.sync()')
  route = switch.route(current_mode())
  program = xlac._get_xla_tensors_hlo_proto([*tensors, *route.companions()])
  # StableHLO is made of the program as it is.
  if not leaves_as_stablehlo(os.environ):
    options = CompileOptions(Partitioner.GSPMD, 1,
                             runtime.global_runtime_device_count())
    program = route.planner(program, 'hlo', options).attempts[0].program
  computation = xlac._xla_op_computation_from_module_proto('lowered', program)
  return xlac._xla_computation_text(computation)
