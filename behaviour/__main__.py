"""Runs `python -m torch_xla_behaviour`."""

import sys

from .command import main

if __name__ == '__main__':
  sys.exit(main())
