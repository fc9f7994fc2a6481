"""How much memory a device has, in the compiler's own words."""

from __future__ import annotations

import dataclasses
import re
from typing import Optional

from . import plugin
from ...gate import sizes
from ..topologies import TopologyName

# No device holds this. A compiler that counts memory says what there is.
_TOO_LARGE = b'''
func.func public @main(%a: tensor<1048576x1048576xf32>)
    -> tensor<1048576x1048576xf32> {
  %b = stablehlo.add %a, %a : tensor<1048576x1048576xf32>
  return %b : tensor<1048576x1048576xf32>
}
'''
# CompileOptionsProto: executable_build_options of one replica and partition.
_ONE_DEVICE = bytes([0x1a, 4, 0x20, 1, 0x28, 1])
_AVAILABLE = re.compile(r'exceeds available HBM \(([\d.]+[KMGT]?)\)')


def memory_of_device(topology: TopologyName) -> Optional[int]:
  """The bytes of a device's memory; None where nothing says it.

  The compiler says it to two decimals of the unit.

  Asked of a single slice: libtpu does not come back from such a program for
  several.
  """
  one = dataclasses.replace(topology, slices=1)
  return available(
      plugin.refusal(one.for_library, one.options, _TOO_LARGE, 'mlir',
                     _ONE_DEVICE))


def available(refusal: str) -> Optional[int]:
  """The memory that a refusal for lack of it says there is."""
  found = _AVAILABLE.search(refusal)
  return sizes.parse(found[1]) if found else None
