"""Shardy and V2 shardings for torch_xla, at the door to the compiler.

Every program that torch_xla compiles goes through `PJRT_Client_Compile` of the
backend's plugin. With the mode on (`XLA_USE_SHARDY=1`, `XLA_SHARDING_V2=1` or
`torch_xla.runtime.use_shardy()`), a shim stands there and hands each program to
this package first. With the mode off nothing here runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import gc
import importlib
import os
from typing import Any, Optional, TYPE_CHECKING, Union

if TYPE_CHECKING:
  import torch

  from .compile.record import ProgramRecord

from .device_count import check_mesh, virtual_devices
from .errors import (BackendCompileError, DeviceCountError, DoorError,
                     LayoutError, TooLateError)
from .mode import current_mode, Mode
from .switch import (behind_door, device_name, read_again, start, switch_on)

__all__ = [
    'BackendCompileError', 'DeviceCountError', 'DoorError', 'LayoutError',
    'Mode', 'TooLateError', 'behind_door', 'check_mesh', 'current_mode',
    'device_kind', 'device_name', 'explain', 'export_stablehlo', 'lower_text',
    'name_tensors', 'programs', 'read_again', 'record', 'reset', 'start',
    'switch_on', 'virtual_devices'
]


def programs() -> tuple[ProgramRecord, ...]:
  """All programs that this process compiled through the door, oldest first.

  One that came again without a compile is counted by its `reused`. Empty with
  the mode off. The programs' bytes are not kept; `record()` keeps them. What
  `torch_xla.shardy.cache` loaded instead of compiling is here, too.
  """
  from .compile import ledger
  return ledger.process_ledger.programs()


def reset() -> None:
  """Lets go of what compiled functions hold, weights on the device among it.

  The graphs of `torch.compile` go, as by `torch._dynamo.reset()`, and so does
  what only reference cycles hold, such as a model that was dropped. Functions
  compile again at their next call; the records of `programs()` stay.
  """
  import torch
  torch._dynamo.reset()
  gc.collect()


@contextlib.contextmanager
def record() -> Iterator[list[ProgramRecord]]:
  """Collects one record per program compiled in the block, bytes included.

  >>> with torch_xla.shardy.record() as programs:
  ...   torch_xla.sync()
  >>> programs[0].partitioner

  Raises:
    DoorError: programs do not pass the door, so nothing could be recorded.
  """
  from . import door
  from .compile import ledger
  door.check_door()
  with ledger.process_ledger.collect() as collected:
    yield collected


def device_kind() -> Optional[str]:
  """The kind of this process's devices, as the plugin calls it.

  None with the mode off: then only `_XLAC` could ask, and does not in SPMD.

  Raises:
    DoorError: the runtime came up without the door, or the plugin does not say.
  """
  if current_mode() is Mode.OFF:
    return None
  import torch_xla

  from . import door
  from .door import shim
  torch_xla._XLAC._init_computation_client()
  door.check_runtime()
  return shim.device_kind()


def lower_text(tensors: Sequence[torch.Tensor]) -> str:
  """The program that the backend would get for pending tensors, as HLO text.

  Nothing is compiled and nothing is run. The program is lowered as the mode
  says; the backend may still get another one if Shardy's program turns out not
  to keep the layouts that are stored. `export_stablehlo` writes what a backend
  gets that reads StableHLO.

  Args:
    tensors: XLA tensors, one at least with work pending.

  Raises:
    DoorError: programs do not pass the door, so none is lowered.
    ValueError: none of the tensors has anything pending.
  """
  from . import door, switch
  door.check_door()
  from .stablehlo import exports
  return switch.hlo_text(exports.lowered_hlo(tensors))


def name_tensors(tensors: Mapping[str, torch.Tensor]) -> None:
  """Gives tensors names that records show: `dict(model.named_parameters())`."""
  from . import tensor_names
  tensor_names.name_tensors(tensors)


def explain(
    source: Union[Sequence[torch.Tensor], torch.export.ExportedProgram,
                  ProgramRecord]
) -> Any:
  """Why Shardy splits a program's tensors as it does, and what is in conflict.

  Nothing is compiled and nothing is run: Shardy, as jaxlib has it, propagates
  the program that the backend gets. `print` shows it; `tensors(glob)` the way
  that each axis came. `torch-xla-shardy explain` does it for a script.

  >>> print(torch_xla.shardy.explain([loss]))

  Args:
    source: as for `export_stablehlo`.

  Returns:
    An `explanation.Explanation`.

  Raises:
    DoorError, ValueError: as from `export_stablehlo`; or nothing of the program
      is annotated.
  """
  return importlib.import_module('.explanation',
                                 __name__).explain_source(source)


def export_stablehlo(source: Union[Sequence[torch.Tensor],
                                   torch.export.ExportedProgram, ProgramRecord],
                     path: Union[str, os.PathLike],
                     form: str = 'sdy',
                     version: Optional[str] = None) -> None:
  """Writes a program as StableHLO, shardings and all.

  Nothing is compiled and nothing is run. Mesh axis names, priorities and
  constraints are the users', in Shardy's dialect; composites are kept. A file
  beside, `path` with `.json` behind it, says which argument and result is what.

  >>> torch_xla.shardy.export_stablehlo([loss], 'step.mlir')

  Args:
    source: XLA tensors, one at least with work pending. Or a program that
      torch.export made, of which tensors on the device keep their annotations
      and the others are replicated. Or a program from `record()`: this one says
      which arguments are donated (`jax.buffer_donor`), unless it was sent as
      StableHLO.
    path: `.mlir` for text, for people and tools such as sdy_opt; `.mlirbc` or
      `.bc` for a portable artifact.
    form: 'sdy'; 'attributes', as plugins older than StableHLO 1.11.0 want it;
      'plain', without any sharding. With mode V2 shardings are `mhlo.sharding`
      unless it is 'plain'.
    version: of the artifact, such as '1.9.0'; by default one that consumers of
      the last twelve weeks read.

  Raises:
    DoorError: the mode is off, or jaxlib is missing.
    ValueError: none of the tensors has anything pending, the record has no
      program, or the suffix, form or version is not known.
  """
  from .stablehlo import exports
  exports.export_stablehlo(source, path, form, version)
