"""The names of an exported program's arguments and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import dataclasses
from typing import Any

from . import answer, dialects, to_dialect
from ..compile.record import TensorRecord
from .forms import Form
from .functions import (ARGUMENTS, attributes_of, DONOR_ATTRIBUTE, main_of,
                        RESULTS, set_attributes, types_of)
from .mlir import ir

# As jax names them in what it exports. Not every reader keeps locations.
INFO = {ARGUMENTS: 'jax.arg_info', RESULTS: 'jax.result_info'}


@dataclasses.dataclass(frozen=True)
class Signature:
  """The users' names of arguments and results, by number, where known."""
  arguments: Mapping[int, str]
  results: Mapping[int, str]

  def write(self, module: ir.Module) -> None:
    """Names what the main function of a module takes and gives, in place."""
    main = main_of(module)
    with dialects.scope(module):
      for which, names in ((ARGUMENTS, self.arguments), (RESULTS,
                                                         self.results)):
        given = attributes_of(main, which)
        for number, name in names.items():
          given[number][INFO[which]] = ir.StringAttr.get(name)
        set_attributes(main, which, given)
      for number, name in self.arguments.items():
        argument = main.regions[0].blocks[0].arguments[number]
        argument.set_location(ir.Location.name(name))

  def describe(self, module: ir.Module, form: Form,
               tensors: Sequence[TensorRecord]) -> dict[str, Any]:
    """The content of the JSON file for a module, which is used up.

    Args:
      form: that the module is in.
      tensors: what is known of its arguments.
    """
    if form is Form.ATTRIBUTES:
      to_dialect.write(module)
    main = main_of(module)
    stored = {t.parameter: t for t in tensors}
    arguments = _described(module, main, ARGUMENTS, self.arguments)
    for argument, attributes in zip(
        arguments, attributes_of(main, ARGUMENTS), strict=True):
      tensor = stored.get(argument['number'])
      if tensor is not None:
        argument['sharding'] = tensor.placement
      argument['priority'] = None if tensor is None else tensor.priority
      argument['donated'] = DONOR_ATTRIBUTE in attributes
    return {
        'arguments': arguments,
        'results': _described(module, main, RESULTS, self.results)
    }


def _described(module: ir.Module, main: ir.Operation, which: str,
               names: Mapping[int, str]) -> list[dict[str, Any]]:
  layouts = answer.layouts(module, main, which)
  return [{
      'number': number,
      'name': names.get(number),
      **_shape(kind),
      'sharding': None if layout is None else str(layout),
  } for number, (
      kind,
      layout) in enumerate(zip(types_of(main, which), layouts, strict=True))]


def _shape(kind: ir.Type) -> dict[str, Any]:
  """A type's shape and dtype for JSON; a dynamic dimension is null."""
  if not dialects.is_a(kind, ir.RankedTensorType):
    return {'shape': None, 'dtype': str(kind)}
  tensor = ir.RankedTensorType(kind)
  dims = [
      None if tensor.is_dynamic_dim(n) else tensor.get_dim_size(n)
      for n in range(tensor.rank)
  ]
  return {'shape': dims, 'dtype': str(tensor.element_type)}
