"""What an operation is: inputs, a call, and how exact its result must be."""

from __future__ import annotations

from collections.abc import Callable
import dataclasses
from typing import Union

import torch

from .tolerance import Tolerance

Inputs = Callable[[torch.Generator], tuple[torch.Tensor, ...]]
Results = Union[torch.Tensor, tuple[torch.Tensor, ...]]
Call = Callable[..., Results]


@dataclasses.dataclass(frozen=True)
class Operation:
  """A computation that torch can do on the CPU and on a device.

  Attributes:
    name: what it is called in reports; no other operation has it.
    family: the operations that it stands beside.
    inputs: makes its inputs, on the CPU; equal generators make equal inputs.
    call: computes, on whatever device the inputs are.
    tolerance: how far a device's numbers may be from the CPU's.
  """
  name: str
  family: str
  inputs: Inputs
  call: Call
  tolerance: Tolerance


def expected_of(operation: Operation,
                seed: int) -> tuple[tuple[torch.Tensor, ...], Results]:
  """The inputs that a seed gives, and what torch makes of them on the CPU."""
  inputs = operation.inputs(torch.Generator().manual_seed(seed))
  # What a call writes into its inputs must not reach the device's.
  return inputs, operation.call(*(tensor.clone() for tensor in inputs))
