"""The program of pending tensors, before anything is compiled."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch_xla
from torch_xla import runtime
from torch_xla.distributed.spmd import xla_sharding

from . import switch
from .hlo.compile_options import CompileOptions, Partitioner
from .mode import current_mode


def pending(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
  """The global tensors behind these."""
  tensors = [xla_sharding.unwrap_sharded_tensor(t) for t in tensors]
  if not any(torch_xla._XLAC._check_tensor_need_materialization(tensors)):
    raise ValueError('none of the tensors has anything pending: there is no '
                     'program to show. Ask before torch_xla.sync()')
  return tensors


def lower_text(tensors: Sequence[torch.Tensor]) -> str:
  """Does the work of `torch_xla.shardy.lower_text`, behind the door's check."""
  xlac = torch_xla._XLAC
  route = switch.route(current_mode())
  roots = [*pending(tensors), *route.pending_bindings()]
  program = xlac._get_xla_tensors_hlo_proto(roots)
  options = CompileOptions(Partitioner.GSPMD, 1,
                           runtime.global_runtime_device_count())
  plan = route.planner(program, 'hlo', options)
  return switch.hlo_text(plan.attempt().program)
