"""An operation: inputs, a call, and the tolerance of its result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import dataclasses
import functools
from typing import Any, Union

import torch

from .inputs import Inputs, Make
from ..comparison import (APPROXIMATED, COMPOUND, EXACT, PROPORTION, ROUNDED,
                          SAME_BITS, Tolerance)

Results = Union[torch.Tensor, tuple[torch.Tensor, ...]]
Call = Callable[..., Results]


@dataclasses.dataclass(frozen=True)
class Operation:
  """A computation that torch can do on the CPU and on a device.

  Attributes:
    tolerance: how far a device's numbers may be from the CPU's.
    name: what it is called in reports; no other operation has it.
    call: computes, on whatever device the inputs are.
    inputs: make its inputs, on the CPU, one after the other.
    family: the operations that it stands beside.
  """
  tolerance: Tolerance
  name: str
  call: Call
  inputs: Inputs
  family: str = ''

  def given(self, seed: int) -> tuple[torch.Tensor, ...]:
    """The inputs that a seed gives."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(make(generator) for make in self.inputs)


def operation(tolerance: Tolerance, name: str, call: Call, *inputs:
              Make) -> Operation:
  return Operation(tolerance, name, call, inputs)


def each(kind: Callable[..., Operation],
         module: Any,
         names: str,
         *inputs: Make,
         prefix: str = '') -> Iterator[Operation]:
  """An operation of each of a module's functions that `names` lists."""
  return (kind(prefix + name, getattr(module, name), *inputs)
          for name in names.split())


approximated = functools.partial(operation, APPROXIMATED)
compound = functools.partial(operation, COMPOUND)
exact = functools.partial(operation, EXACT)
proportion = functools.partial(operation, PROPORTION)
rounded = functools.partial(operation, ROUNDED)
same_bits = functools.partial(operation, SAME_BITS)


def expected_of(operation: Operation,
                seed: int) -> tuple[tuple[torch.Tensor, ...], Results]:
  """The inputs that a seed gives, and what torch makes of them on the CPU."""
  inputs = operation.given(seed)
  # What a call writes into its inputs must not reach the device's.
  return inputs, operation.call(*(tensor.clone() for tensor in inputs))
