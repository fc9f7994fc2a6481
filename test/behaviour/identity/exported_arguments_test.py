"""An exported program takes its arguments in the order of its signature."""

from __future__ import annotations

from kinds import assert_right
import torch
from torch_xla.stablehlo import exported_program_to_stablehlo
from torch_xla_form import OFF

ENVIRONMENT = OFF


class _Weighed(torch.nn.Module):

  def __init__(self):
    super().__init__()
    self.weight = torch.nn.Parameter(torch.tensor([3., 5.]))

  def forward(self, a, b, c):
    return (c - b) / a * self.weight


def test_numbers():
  """Of tensors of one shape, so that nothing else tells them apart."""
  arguments = [torch.full((2,), value) for value in (2., 4., 10.)]
  model = _Weighed()
  exported = torch.export.export(model, tuple(arguments))
  program = exported_program_to_stablehlo(exported)
  assert_right(program(*arguments), model(*arguments))
