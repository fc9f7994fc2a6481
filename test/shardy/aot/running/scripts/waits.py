"""Waits for an accuracy that never comes, without a sync."""

import torch
import torch_xla  # noqa: F401

x = torch.ones(8).to('xla')
rounds = 0
try:
  while (x.sum() / 8).item() < 0.9:
    rounds += 1
    assert rounds < 1000, 'nobody stops this'
finally:
  print('cleaned up')
