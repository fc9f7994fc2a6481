"""A small model with a buffer."""

import torch


class Mlp(torch.nn.Module):

  def __init__(self, device=None):
    super().__init__()
    self.up = torch.nn.Linear(8, 16, device=device)
    self.down = torch.nn.Linear(16, 8, device=device)
    self.register_buffer('scale', torch.full((8,), 0.5, device=device))

  def forward(self, x):
    return self.down(torch.relu(self.up(x))) * self.scale
