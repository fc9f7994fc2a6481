"""Ends in the way that it is told to, after a program."""

import os
import signal
import sys
import time

import torch
import torch_xla

way = sys.argv[1]
y = torch.ones(4).to('xla') * 2
torch_xla.sync()
print('computed', flush=True)
if way == 'raise':
  raise ValueError('on purpose')
elif way == 'exit':
  sys.exit(3)
elif way == 'crash':
  os.kill(os.getpid(), signal.SIGSEGV)
elif way == 'leave':
  os._exit(7)
elif way == 'wait':
  try:
    time.sleep(600)
  finally:
    print('cleaned up', flush=True)
