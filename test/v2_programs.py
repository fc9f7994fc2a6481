"""Programs in V2, as mode V2 hands them on."""

from torch_xla.shardy.compile.attempt import Attempt
from torch_xla.shardy.hlo.compile_options import CompileOptions, Partitioner
from torch_xla.shardy.mode import Mode
from torch_xla.shardy.stablehlo.planner import Planner


def emit(program: bytes) -> Attempt:
  """GSPMD's attempt at a program in HLO."""
  options = CompileOptions(Partitioner.GSPMD, 1, 8)
  return Planner(Mode.V2)(program, 'hlo', options).attempt()
