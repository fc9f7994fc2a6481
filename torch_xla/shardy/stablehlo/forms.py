"""The forms that Shardy's shardings take in StableHLO.

- `SDY`: the sdy dialect itself, `sdy.sharding` and `sdy.sharding_constraint`.
- `ATTRIBUTES`: the same as text in frontend attributes, on `Sharding` and
  `xla.sdy.FuncResultSharding` calls, as XLA's own client writes it for plugins
  older than StableHLO 1.11.0.
- `PLAIN`: no sharding at all, and no operation that StableHLO lacks.

A program that was lowered in HLO has attributes; here it gets its form.
"""

from __future__ import annotations

import enum

from . import composites, dialects, to_dialect
from ..rewrite.extract import SHARDING_TARGET
from .functions import (ARGUMENTS, drop_attribute, functions_of, RESULTS,
                        SHARDING_ATTRIBUTE, target_of)
from .mlir import ir


class Form(enum.Enum):
  """The form in which a program in StableHLO carries Shardy's shardings."""
  SDY = 'sdy'
  ATTRIBUTES = 'attributes'
  PLAIN = 'plain'


def write(module: ir.Module, form: Form) -> None:
  """Turns a module as it comes from HLO into a form, in place.

  Raises:
    ProgramTextError: what it says in attributes cannot be read.
  """
  with dialects.scope(module):
    to_dialect.flatten_calls(module)
    _drop_shardings(module, calls=form is Form.PLAIN)
  if form is Form.SDY:
    to_dialect.write(module)
  elif form is Form.PLAIN:
    composites.write(module)


def _drop_shardings(module: ir.Module, calls: bool) -> None:
  """Takes out what is said in the terms of GSPMD, with `calls` those, too."""
  for operation in dialects.operations_of(module):
    if calls and target_of(operation) == SHARDING_TARGET:
      operation.results[0].replace_all_uses_with(operation.operands[0])
      operation.erase()
    elif SHARDING_ATTRIBUTE in operation.attributes:
      del operation.attributes[SHARDING_ATTRIBUTE]
  for function in functions_of(module).values():
    for which in (ARGUMENTS, RESULTS):
      drop_attribute(function, which, SHARDING_ATTRIBUTE)
