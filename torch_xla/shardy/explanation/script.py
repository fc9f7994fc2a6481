"""Runs a script as its user would, and keeps the programs that it compiled."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import torch
import torch_xla
from torch_xla import runtime
from torch_xla_shardy import script_process

from .. import door, mode, script_names, tensor_names
from ..compile.record import ProgramRecord
from ..stablehlo import dialects


class Ran(NamedTuple):
  """The programs that a script compiled, and how it failed.

  Attributes:
    failure: as `script_process.Ended` has it.
    modules: that lived when something was compiled.
    names: its globals, whose tensors would be gone otherwise.
  """
  programs: list[ProgramRecord]
  failure: str
  modules: list[torch.nn.Module]
  names: dict[str, Any]

  @property
  def held(self) -> frozenset[str]:
    """The names of what its modules hold."""
    return frozenset(n for _, n in tensor_names.names_in(self.modules, ()))


def run(script: str, arguments: list[str], is_module: bool) -> Ran:
  """Runs a script in this process, with Shardy on; prints how it failed.

  Raises:
    DoorError: jaxlib is missing.
  """
  dialects.check_installed('Shardy is asked by way of StableHLO')
  if torch_xla.shardy.current_mode() is not mode.Mode.SHARDY:
    runtime.use_shardy()
  modules: dict[int, torch.nn.Module] = {}
  names = script_names.ScriptNames()
  named: dict[bytes, dict[int, str]] = {}

  def keep(compilation: door.Compilation, compile_it: door.Compiler) -> None:
    modules.update((id(m), m) for m in tensor_names.living_owners()[0])
    named.setdefault(compilation.program, names.of_parameters(compilation))
    compile_it(compilation)

  undo = door.wrap(keep)
  with torch_xla.shardy.record() as programs:
    ended = script_process.run(script, arguments, is_module)
  undo()
  return Ran([
      dataclasses.replace(p, arguments=named.get(p.sent or b'', {}))
      for p in programs
  ], ended.failure, list(modules.values()), ended.names)
