"""Asks whether torch_xla is there, as transformers does, and then uses it."""

import importlib.util

assert importlib.util.find_spec('torch_xla') is not None

import torch
import torch_xla

twos = torch.ones(2).to('xla') * 2
print('on', twos.device, torch_xla.runtime.device_type())
torch_xla.sync()
