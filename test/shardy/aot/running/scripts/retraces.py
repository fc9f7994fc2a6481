"""Compiles anew at each step, as shapes change."""

import torch
import torch_xla

step = 0
while True:
  step += 1
  assert step < 1000, 'nobody stops this'
  y = torch.ones(step, 8).to('xla') * 2
  torch_xla.sync()
