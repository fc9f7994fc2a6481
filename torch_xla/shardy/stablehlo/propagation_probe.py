"""Finds how Shardy splits results that nobody placed, by jaxlib's Shardy.

`rewrite.propagation_probe` does the same by the backend's Shardy, where jaxlib
may be missing. The padded program's layouts are compared with the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
import math

from . import dialects
from ..compile.plan import Tiles
from .functions import attributes_of, main_of, RESULTS, SDY_ATTRIBUTE
from ..sdy import attributes
from .mlir import ir, sdy

_PIPELINE = 'builtin.module(sdy-propagation-pipeline)'


def tiles(module: ir.Module, numbers: Iterable[int],
          mesh: attributes.Mesh) -> Tiles:
  """The tiles of results, by number, of a module that is used up.

  Args:
    module: in the dialect; these results are padded to multiples of all
      devices.
    mesh: that it was lowered over.

  Raises:
    ProgramTextError: jaxlib's Shardy does not take the program.
  """
  sizes = dict(mesh.axes)
  dialects.run(_PIPELINE, module, 'cannot propagate shardings')
  with dialects.scope(module):
    result_attributes = attributes_of(main_of(module), RESULTS)
    return {
        number:
            tuple(
                math.prod(
                    _size(axis, sizes)
                    for axis in sdy.DimensionShardingAttr(dim).axes)
                for dim in
                sdy.TensorShardingAttr(result_attributes[number]
                                       [SDY_ATTRIBUTE]).dimension_shardings)
        for number in numbers
        if SDY_ATTRIBUTE in result_attributes[number]
    }


def _size(attribute: ir.Attribute, sizes: Mapping[str, int]) -> int:
  axis = sdy.AxisRefAttr(attribute)
  part = axis.sub_axis_info
  return sizes[axis.name] if part is None else int(
      sdy.SubAxisInfoAttr(part).size)
